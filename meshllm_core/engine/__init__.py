"""The engine child process and its supervisor. Only `engine.llama` touches llama.cpp, in the child."""
