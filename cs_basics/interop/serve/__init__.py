"""A model on this machine that answers the page and the clients of the completions endpoint.

batch.py         texts of several readers that grow together, a token each per step
inside.py        the model operated on, and what happens inside it: what the page's worker computes
requests.py      what a request may hold
glass.py         the page's own requests
completions.py   POST /v1/completions and GET /v1/models
app.py           the application: routes, limits, errors, server-sent events

Needs starlette, uvicorn and pydantic; scripts/serve.py starts it.
"""
