"""llama.cpp, by ctypes. The only package that imports `llama_cpp`; it lives in the engine child."""
