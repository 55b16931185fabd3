"""The entry point `vllm.general_plugins`: `--attention-backend CUSTOM` is the backend of this
package, and `wave` is a provider of norms and activations (`kernel_config.ir_op_priority`). With
WAVE_VLLM_MLA=1, the backend is the one for models with MLA; with WAVE_VLLM_ACTIVATIONS=1, layers of
activations are ours.

vLLM calls `register` in each of its processes. It imports vLLM's registries and no kernel.
"""

from wave_lang import _wave

BACKEND = "wave_lang.integrations.vllm_backend.WaveBackend"
MLA_BACKEND = "wave_lang.integrations.vllm_mla.WaveMLABackend"


def register() -> None:
    """Registers the backend, norms and activations. It may be called more than once."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    mla = _wave.variable_number("WAVE_VLLM_MLA", 0)
    register_backend(AttentionBackendEnum.CUSTOM, MLA_BACKEND if mla else BACKEND)
    if _wave.variable_number("WAVE_VLLM_ACTIVATIONS", 0):
        from . import vllm_activations

        vllm_activations.replace_layers()
    try:
        from vllm.ir import ops as ir_ops
    except ImportError:  # releases whose norms have no providers
        return
    from . import vllm_activations, vllm_norms

    vllm_norms.register(ir_ops)
    vllm_activations.register(ir_ops)
