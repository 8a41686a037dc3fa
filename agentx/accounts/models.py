"""People and their keys. Secrets are stored as hashes only; a leaked table opens nothing."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person. Own model from the first migration, so that columns can be added later."""

    display_name = models.CharField(max_length=120, blank=True, default="")

    class Meta(AbstractUser.Meta):
        pass

    def __str__(self) -> str:
        return self.display_name or self.username


class ApiToken(models.Model):
    """A personal token for scripts. ``digest`` = sha256 of the secret, which has 256 random bits of its own."""

    class Scope(models.TextChoices):
        READ = "read"
        WRITE = "write"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=120)
    scope = models.CharField(max_length=8, choices=Scope.choices, default=Scope.WRITE)
    prefix = models.CharField(max_length=12, help_text="The first characters, to tell tokens apart")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class SignInLink(models.Model):
    """A link that signs its user in once. ``digest`` = sha256 of the secret in the link."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_links")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"link for {self.user_id}"
