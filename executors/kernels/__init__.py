"""The project's own Triton kernels: one paged attention kernel for every phase, and the merge of its splits.

`latent`, with `latent_copy` and `latent_memory`, computes absorbed MLA on Hopper instead: the same work list and
results, but warps with different tasks, which plain Triton cannot express.

`form` and `tiling` say what is compiled, `schedule` which program does what, `attend` and `merge` are the kernels,
`launch` binds them to inputs. Only the kernels' files import Triton; only functions of `launch` import those.
"""
