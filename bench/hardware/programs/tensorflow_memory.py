"""TensorFlow takes nearly all of the card at once: it must be nearly all of the slice."""

import json
import re

import tensorflow
from tensorflow.python.client import device_lib

limit = next(each.memory_limit for each in device_lib.list_local_devices() if re.search("GPU", each.device_type))
print(json.dumps({"limit": limit, "tensorflow": tensorflow.__version__}))
