"""transformers models that run from an Emblema cache.

    import emblema.transformers
    from emblema.transformers import EmblemaCache

    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="emblema")
    model.generate(**inputs, cache=EmblemaCache(model))

Importing this module makes the attention function "emblema" known to transformers.
"""

from emblema.transformers import versions

versions.check()  # before the imports that an old release lacks names for

from emblema.transformers.attention import register  # noqa: E402
from emblema.transformers.cache import EmblemaCache  # noqa: E402
from emblema.transformers.models import TESTED_MODEL_TYPES  # noqa: E402

__all__ = ["EmblemaCache", "TESTED_MODEL_TYPES"]

register()
