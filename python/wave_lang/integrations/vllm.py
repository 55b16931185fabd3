"""The entry point `vllm.general_plugins`: `--attention-backend CUSTOM` is the backend of this
package, and `wave` is a provider of norms (`kernel_config.ir_op_priority`).

vLLM calls `register` in each of its processes. It imports vLLM's registries and no kernel.
"""

BACKEND = "wave_lang.integrations.vllm_backend.WaveBackend"


def register() -> None:
    """Registers the backend and the norms. It may be called more than once."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, BACKEND)
    try:
        from vllm.ir import ops as ir_ops
    except ImportError:  # releases whose norms have no providers
        return
    from . import vllm_norms

    vllm_norms.register(ir_ops)
