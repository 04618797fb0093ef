"""Search by meaning: the models that turn text into vectors, the library's vectors in memory, and making missing ones.

numpy is imported only by `builtin` and `vectors`, so that commands which do not search by meaning start quickly.
"""

import os

# numpy reads this when it is loaded. More threads spin beside each other, and make the model slower.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
