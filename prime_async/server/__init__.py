"""The embedded platform: the hosted platform's wire protocol on one machine, over SQLite.

``create_app(config)`` builds the ``aiohttp.web`` application, ``serve(config)`` binds the unix
socket and the loopback port and runs until cancelled. Clients never import this package; they speak
HTTP to it.
"""
