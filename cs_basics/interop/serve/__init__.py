"""A model on this machine that answers the page and the clients of the completions endpoint.

batch.py         texts of several readers that grow together, one token each per step
inside.py        models with parts off or scaled, and what happens inside: as the page's worker does
requests.py      what a request may hold
glass.py         the page's own requests
completions.py   POST /v1/completions and GET /v1/models
app.py           the application: routes, limits, errors, server-sent events

Needs starlette, uvicorn and pydantic; scripts/serve.py starts it.
"""
