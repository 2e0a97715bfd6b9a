"""The project's own Triton kernels: one paged attention kernel for every phase, and the merge of its splits.

`form` and `tiling` say what is compiled, `schedule` which program does what, `attend` and `merge` are the kernels,
`launch` binds them to inputs. Only the kernels' files import Triton; only functions of `launch` import those.
"""
