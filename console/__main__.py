"""`python -m console`: the command line where its script is not on the path."""

import sys

from console.main import main

sys.exit(main())
