"""`python -m vitempo`: the command `vitempo`."""

import sys

from ._command import main

sys.exit(main())
