"""transformers models that run from an Emblema cache.

    import emblema.transformers
    from emblema.transformers import EmblemaCache

    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="emblema")
    model.generate(**inputs, cache=EmblemaCache(model))

Importing this module makes the attention function "emblema" known to transformers.
"""

from emblema.transformers.attention import register
from emblema.transformers.cache import EmblemaCache
from emblema.transformers.models import TESTED_MODEL_TYPES

__all__ = ["EmblemaCache", "TESTED_MODEL_TYPES"]

register()
