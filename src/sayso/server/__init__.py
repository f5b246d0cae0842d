"""The service: Sayso over HTTP. `create_app` makes an ASGI application; `sayso serve` runs one."""
