"""python -m fedsolve"""

from fedsolve.cli import main

if __name__ == "__main__":
    main()
