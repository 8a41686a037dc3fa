"""Every address of the site. WebSockets are routed in ``agentx.asgi``."""

from django.contrib import admin
from django.urls import include, path

from agentx.accounts.api import use_link
from agentx.pages import app_page

urlpatterns = [
    path("api/", include("agentx.accounts.api")),
    path("api/", include("conversations.api.urls")),
    path("admin/", admin.site.urls),
    path("sign-in/<str:token>/", use_link),
    path("", app_page),
    path("c/<uuid:conversation_id>", app_page),
    path("sign-in", app_page),
]

handler400 = "agentx.http.bad_request"
handler403 = "agentx.http.permission_denied"
handler404 = "agentx.http.not_found"
handler500 = "agentx.http.server_error"
