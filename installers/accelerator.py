"""Which hardware llama.cpp is built for on this computer, and why not for another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from installers.machine import Machine, install_command
from installers.report import SetupError

OVERRIDE = "MESHLLM_ACCELERATOR"
_NEEDED = {
    "metal": "use a Mac with Apple silicon",
    "cuda": "install the CUDA toolkit (nvcc) and the NVIDIA driver",
    "rocm": "install AMD's HIP SDK (hipcc) and the amdgpu driver",
    "vulkan": "install glslc, the Vulkan and SPIR-V headers and libvulkan",
}


@dataclass(frozen=True)
class Finding:
    """What was found out about one accelerator."""

    name: str
    """Value of MESHLLM_ACCELERATOR."""
    title: str
    reason: str
    buildable: bool = False
    """The compiler and libraries are here."""
    usable: bool = False
    """Also a device and its driver."""
    next_step: str = ""
    """What would make it usable; empty when there is no such hardware."""
    cmake_args: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """Set for the build."""
    toolkit: Path | None = None
    """The compiler for the device: another one makes another wheel."""


@dataclass(frozen=True)
class Choice:
    """The accelerator to build for; `rejected` are the others with their reasons."""

    chosen: Finding
    rejected: tuple[Finding, ...]

    def lines(self) -> list[str]:
        """The choice and its reasons, for a person."""
        lines = [f"Accelerator: {self.chosen.title}, because {self.chosen.reason}."]
        for finding in self.rejected:
            hint = f" {finding.next_step}." if finding.next_step else ""
            lines.append(f"  not {finding.title}: {finding.reason}.{hint}")
        return lines


def choose(machine: Machine) -> Choice:
    """The best accelerator that is complete here, or the one that MESHLLM_ACCELERATOR names.

    Raises SetupError when that one is unknown or cannot be built here.
    """
    findings = (_metal(machine), _cuda(machine), _rocm(machine), _vulkan(machine))
    cpu = Finding("cpu", "CPU", "no GPU with its driver and build tools was found", True, True)
    wanted = machine.environ.get(OVERRIDE, "").strip().lower()
    if not wanted:
        chosen = next((finding for finding in findings if finding.usable), cpu)
    else:
        chosen = _named(wanted, (*findings, cpu))
    if chosen.name == "cpu" and machine.system == "Darwin":
        chosen = Finding("cpu", "CPU", chosen.reason, True, True, cmake_args=("-DGGML_METAL=OFF",))
    return Choice(chosen, tuple(finding for finding in findings if finding.name != chosen.name))


def _named(wanted: str, findings: tuple[Finding, ...]) -> Finding:
    found = next((finding for finding in findings if finding.name == wanted), None)
    if found is None:
        names = ", ".join(finding.name for finding in findings)
        raise SetupError(f"{OVERRIDE}={wanted[:40]!r} is not an accelerator.", f"use one of {names}.")
    if not found.buildable:
        advice = found.next_step or _NEEDED[wanted]
        raise SetupError(
            f"{OVERRIDE}={wanted}, but {found.reason}.", f"{advice}; or build for the CPU: {OVERRIDE}=cpu."
        )
    return Finding(
        found.name,
        found.title,
        f"{OVERRIDE}={wanted} asks for it" + ("" if found.usable else f" (although {found.reason})"),
        True,
        found.usable,
        cmake_args=found.cmake_args,
        environ=found.environ,
        toolkit=found.toolkit,
    )


def _metal(machine: Machine) -> Finding:
    if machine.system != "Darwin" or machine.architecture != "arm64":
        return Finding("metal", "Metal", "this is not a Mac with Apple silicon")
    return Finding(
        "metal", "Metal", "this is a Mac with Apple silicon", True, True, cmake_args=("-DGGML_METAL=ON",)
    )


def _cuda(machine: Machine) -> Finding:
    homes = [machine.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [f"{home}/bin" for home in homes if home] + ["/usr/local/cuda/bin", "/opt/cuda/bin"]
    nvcc = machine.tool("nvcc", *folders)
    smi = machine.tool("nvidia-smi", "/usr/lib/wsl/lib")
    driver = smi is not None or machine.has("/proc/driver/nvidia/version", "/dev/nvhost-gpu")
    seen = "nvidia-smi found" if smi else "an NVIDIA driver found"
    if nvcc is None:
        if not driver:
            return Finding("cuda", "CUDA", "no NVIDIA driver (nvidia-smi) was found")
        how = install_command(machine, "nvidia-cuda-toolkit", otherwise="install the CUDA toolkit")
        return Finding(
            "cuda",
            "CUDA",
            f"{seen} but no nvcc",
            next_step=f"Install the CUDA toolkit to use the GPU ({how}), then run this again",
        )
    reason = (
        f"nvcc is at {nvcc} and {seen}" if driver else f"nvcc is at {nvcc}, but no NVIDIA driver was found"
    )
    return Finding(
        "cuda",
        "CUDA",
        reason,
        True,
        driver,
        next_step="" if driver else "Install the NVIDIA driver (nvidia-smi must work), then run this again",
        cmake_args=("-DGGML_CUDA=ON",),
        environ={"CUDACXX": str(nvcc)},
        toolkit=nvcc,
    )


def _rocm(machine: Machine) -> Finding:
    home = machine.environ.get("ROCM_PATH", "") or "/opt/rocm"
    hipcc = machine.tool("hipcc", f"{home}/bin")
    device = machine.has("/dev/kfd")
    if hipcc is None:
        if not device and machine.tool("rocminfo", f"{home}/bin") is None:
            return Finding("rocm", "ROCm", "no AMD compute device (/dev/kfd) was found")
        how = install_command(machine, "hipcc libhipblas-dev librocblas-dev", otherwise="see AMD's guide")
        return Finding(
            "rocm",
            "ROCm",
            "an AMD GPU driver was found but no hipcc",
            next_step=f"Install the HIP SDK to use the GPU ({how}), then run this again",
        )
    root = hipcc.resolve().parent.parent
    clang = next((c for c in (root / "llvm/bin/clang", root / "lib/llvm/bin/clang") if c.exists()), None)
    return Finding(
        "rocm",
        "ROCm",
        f"hipcc is at {hipcc} and " + ("/dev/kfd is present" if device else "there is no /dev/kfd"),
        True,
        device,
        next_step="" if device else "Load the amdgpu driver (/dev/kfd must exist), then run this again",
        cmake_args=("-DGGML_HIP=ON",),
        environ={"HIPCXX": str(clang), "HIP_PATH": str(root)} if clang else {},
        toolkit=hipcc,
    )


def _vulkan(machine: Machine) -> Finding:
    if machine.system == "Darwin":
        return Finding("vulkan", "Vulkan", "macOS uses Metal")
    sdk = machine.environ.get("VULKAN_SDK", "")
    prefixes = [prefix for prefix in ("/usr", "/usr/local", sdk) if prefix]
    glslc = machine.tool("glslc", f"{sdk}/bin" if sdk else "")
    parts = {
        "glslc": glslc is not None,
        "the Vulkan headers": machine.has(*(f"{p}/include/vulkan/vulkan.h" for p in prefixes)),
        "the SPIR-V headers": machine.has(*(f"{p}/include/spirv/unified1/spirv.hpp" for p in prefixes)),
        "libvulkan.so": machine.has(
            *(f"{p}/{lib}/libvulkan.so" for p in prefixes for lib in ("lib", "lib64", "lib/*"))
        ),
    }
    missing = [part for part, present in parts.items() if not present]
    device = machine.has("/dev/dri/renderD*", "/dev/dxg")
    if not device and len(missing) == len(parts):
        return Finding("vulkan", "Vulkan", "no GPU (/dev/dri/renderD*) was found")
    if missing:
        how = install_command(
            machine, "libvulkan-dev glslc spirv-headers", otherwise="install the Vulkan SDK of your system"
        )
        reason = f"{'a GPU was found, but ' if device else ''}{_listed(missing)} {_are(missing)} missing"
        step = f"To use the GPU through Vulkan: {how}, then run this again" if device else ""
        return Finding("vulkan", "Vulkan", reason, next_step=step)
    return Finding(
        "vulkan",
        "Vulkan",
        "glslc, headers and loader are here" + (" and so is a GPU" if device else ", but no GPU was found"),
        True,
        device,
        cmake_args=("-DGGML_VULKAN=ON",),
        toolkit=glslc,
    )


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _are(parts: list[str]) -> str:
    return "is" if len(parts) == 1 and parts[0] in ("glslc", "libvulkan.so") else "are"
