"""Everything ``manage.py up`` needs to run the whole product on one machine without Docker.

The services (``postgres``, ``valkey``, ``llama``) know nothing of Django and can be used alone, as the tests do; the
``supervisor`` keeps them and the application's processes alive; ``stack`` says which ones there are.
"""
