"""The single-page app's door: one HTML file, with this request's nonce in it."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

NONCE_PLACEHOLDER = "__CSP_NONCE__"


@require_safe
@ensure_csrf_cookie
def app_page(request: HttpRequest, **_parts: object) -> HttpResponse:
    """The app's ``index.html``. Never cached: it names the built files of this version, and carries a nonce."""
    try:
        page = (settings.FRONTEND_DIST / "index.html").read_text(encoding="utf-8")
    except OSError:
        return HttpResponse(
            "The web app has not been built yet: run `make`, then reload this page.\n",
            status=503,
            content_type="text/plain; charset=utf-8",
        )
    nonce = str(request.csp_nonce)  # type: ignore[attr-defined]
    response = HttpResponse(page.replace(NONCE_PLACEHOLDER, nonce))
    response["Cache-Control"] = "no-cache"
    return response
