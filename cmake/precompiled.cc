// CMake makes precompiled headers for a target, and a target has a source.
