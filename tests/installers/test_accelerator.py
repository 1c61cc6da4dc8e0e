"""What llama.cpp is built for, with the reasons in words."""

import pytest

from installers.accelerator import choose
from installers.report import SetupError
from tests.installers.conftest import Computer


def _vulkan_parts(computer: Computer) -> None:
    computer.program("glslc")
    computer.file("usr/include/vulkan/vulkan.h")
    computer.file("usr/include/spirv/unified1/spirv.hpp")
    computer.file("usr/lib/x86_64-linux-gnu/libvulkan.so")


def test_bare_computer_gets_cpu_and_every_reason(computer: Computer) -> None:
    choice = choose(computer.machine())
    assert choice.chosen.name == "cpu"
    assert choice.chosen.cmake_args == ()
    text = "\n".join(choice.lines())
    for reason in ("no NVIDIA driver", "/dev/kfd", "/dev/dri/renderD*", "not a Mac"):
        assert reason in text


def test_driver_without_toolkit_names_what_to_install(computer: Computer) -> None:
    computer.program("nvidia-smi")
    computer.program("apt-get")
    choice = choose(computer.machine())
    assert choice.chosen.name == "cpu"
    (line,) = [line for line in choice.lines() if "CUDA" in line]
    assert "nvidia-smi found but no nvcc" in line
    assert "apt-get install nvidia-cuda-toolkit" in line


def test_cuda_complete(computer: Computer) -> None:
    computer.program("nvidia-smi")
    nvcc = computer.program("nvcc")
    chosen = choose(computer.machine()).chosen
    assert (chosen.name, chosen.cmake_args) == ("cuda", ("-DGGML_CUDA=ON",))
    assert chosen.environ == {"CUDACXX": str(nvcc)}


def test_toolkit_off_path_is_found(computer: Computer) -> None:
    computer.file("proc/driver/nvidia/version", "NVRM version")
    nvcc = computer.program("nvcc", folder="usr/local/cuda/bin")
    chosen = choose(computer.machine()).chosen
    assert chosen.name == "cuda"
    assert chosen.environ["CUDACXX"] == str(nvcc)


def test_toolkit_without_driver_is_not_chosen(computer: Computer) -> None:
    computer.program("nvcc")
    choice = choose(computer.machine())
    assert choice.chosen.name == "cpu"
    assert "no NVIDIA driver was found. Install the NVIDIA driver" in "\n".join(choice.lines())


def test_rocm_complete(computer: Computer) -> None:
    computer.file("dev/kfd")
    computer.program("hipcc", folder="opt/rocm/bin")
    clang = computer.program("clang", folder="opt/rocm/llvm/bin")
    chosen = choose(computer.machine()).chosen
    assert (chosen.name, chosen.cmake_args) == ("rocm", ("-DGGML_HIP=ON",))
    assert chosen.environ == {"HIPCXX": str(clang), "HIP_PATH": str(computer.root / "opt/rocm")}


def test_rocm_driver_without_compiler(computer: Computer) -> None:
    computer.file("dev/kfd")
    assert "an AMD GPU driver was found but no hipcc" in "\n".join(choose(computer.machine()).lines())


def test_vulkan_complete(computer: Computer) -> None:
    computer.file("dev/dri/renderD128")
    _vulkan_parts(computer)
    chosen = choose(computer.machine()).chosen
    assert (chosen.name, chosen.cmake_args) == ("vulkan", ("-DGGML_VULKAN=ON",))


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ("usr/bin/glslc", "glslc is missing"),
        ("usr/include/vulkan/vulkan.h", "the Vulkan headers are missing"),
        ("usr/include/spirv/unified1/spirv.hpp", "the SPIR-V headers are missing"),
        ("usr/lib/x86_64-linux-gnu/libvulkan.so", "libvulkan.so is missing"),
    ],
)
def test_vulkan_names_the_missing_part(computer: Computer, part: str, named: str) -> None:
    computer.file("dev/dri/renderD128")
    _vulkan_parts(computer)
    (computer.root / part).unlink()
    choice = choose(computer.machine())
    assert choice.chosen.name == "cpu"
    assert f"a GPU was found, but {named}" in "\n".join(choice.lines())


def test_mac_with_apple_silicon(computer: Computer) -> None:
    computer.system, computer.architecture = "Darwin", "arm64"
    assert choose(computer.machine()).chosen.cmake_args == ("-DGGML_METAL=ON",)


def test_cpu_on_a_mac_switches_metal_off(computer: Computer) -> None:
    computer.system, computer.architecture = "Darwin", "arm64"
    computer.environ["MESHLLM_ACCELERATOR"] = "cpu"
    choice = choose(computer.machine())
    assert choice.chosen.cmake_args == ("-DGGML_METAL=OFF",)
    assert "MESHLLM_ACCELERATOR=cpu asks for it" in choice.lines()[0]


def test_best_of_several(computer: Computer) -> None:
    computer.file("dev/dri/renderD128")
    _vulkan_parts(computer)
    computer.program("nvidia-smi")
    computer.program("nvcc")
    assert choose(computer.machine()).chosen.name == "cuda"
    computer.environ["MESHLLM_ACCELERATOR"] = "Vulkan "
    assert choose(computer.machine()).chosen.name == "vulkan"


def test_forced_without_device_is_built_all_the_same(computer: Computer) -> None:
    computer.program("nvcc")
    computer.environ["MESHLLM_ACCELERATOR"] = "cuda"
    chosen = choose(computer.machine()).chosen
    assert chosen.cmake_args == ("-DGGML_CUDA=ON",)
    assert "although" in chosen.reason


def test_forced_without_compiler_is_refused(computer: Computer) -> None:
    computer.program("nvidia-smi")
    computer.environ["MESHLLM_ACCELERATOR"] = "cuda"
    with pytest.raises(SetupError) as caught:
        choose(computer.machine())
    assert "nvidia-smi found but no nvcc" in caught.value.message
    assert "CUDA toolkit" in caught.value.next_step
    assert "MESHLLM_ACCELERATOR=cpu" in caught.value.next_step


@pytest.mark.parametrize(
    ("name", "next_step"),
    [("cuda", "CUDA toolkit"), ("rocm", "HIP SDK"), ("vulkan", "glslc"), ("metal", "Apple silicon")],
)
def test_forced_with_nothing_there_names_what_it_takes(computer: Computer, name: str, next_step: str) -> None:
    computer.environ["MESHLLM_ACCELERATOR"] = name
    with pytest.raises(SetupError) as caught:
        choose(computer.machine())
    assert next_step in caught.value.next_step


def test_unknown_name_is_refused(computer: Computer) -> None:
    computer.environ["MESHLLM_ACCELERATOR"] = "gpu"
    with pytest.raises(SetupError, match="'gpu' is not an accelerator") as caught:
        choose(computer.machine())
    assert "metal, cuda, rocm, vulkan, cpu" in caught.value.next_step
