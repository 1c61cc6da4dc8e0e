"""Entry of the installers' Python half: `python3 installers`. Standard library only, Python 3.11+."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from installers.setup import main

    raise SystemExit(main(sys.argv[1:]))
