"""Runs between organisations over NVIDIA FLARE: start-up kits, daemons, and jobs that are JSON only.

NVFlare is an extra (`pip install 'fedsolve[nvflare]'`). The modules of its own components (`controller`, `executor`,
`carrier`, `launcher`) import it when they are loaded, and only NVFlare's processes load them; all others import it when
it is needed. What a site does with a request is in `fedsolve.sites`, which knows nothing of NVFlare.
"""
