"""One emulator per backend: which jobs its kernels launch for a call, as the library itself decides."""
