"""`python -m vitempo.cluster JOB`."""

import sys

from ._commands import main

if __name__ == "__main__":
    sys.exit(main())
