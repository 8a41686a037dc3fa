"""``manage.py create_user``: a person who may sign in, made from a script."""

from __future__ import annotations

import getpass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import IntegrityError


class Command(BaseCommand):
    help = "Create a user. Without --password it is asked for; --staff may use the admin."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument(
            "--password", help="visible to other users of this machine while the command runs"
        )
        parser.add_argument("--staff", action="store_true", help="may use the admin, as a superuser")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            password = options["password"] or getpass.getpass("Password: ")
        except EOFError:
            raise CommandError("There is no terminal to ask for a password on: give --password") from None
        user = get_user_model()(
            username=options["username"], is_staff=options["staff"], is_superuser=options["staff"]
        )
        try:
            user.full_clean(exclude=["password"])
            validate_password(password, user)
            user.set_password(password)
            user.save()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except IntegrityError:
            raise CommandError(f"There is already a user {options['username']!r}") from None
        self.stdout.write(f"Created {user.get_username()}")
