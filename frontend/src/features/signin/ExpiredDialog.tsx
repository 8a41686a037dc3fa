/** Asks for the password again when the session has ended, over a page that stays as it is. */
import { Dialog } from "radix-ui";
import type { ReactNode } from "react";
import { useStore } from "zustand";

import { authStore } from "@/app/auth";
import { OVERLAY, PANEL } from "@/ui/Dialog";

import { SignInForm } from "./SignInForm";

export function ExpiredDialog(): ReactNode {
  const { expired, user, signedIn } = useStore(authStore);
  return (
    <Dialog.Root open={expired}>
      <Dialog.Portal>
        <Dialog.Overlay className={OVERLAY} />
        <Dialog.Content
          className={PANEL}
          onEscapeKeyDown={(event) => event.preventDefault()}
          onInteractOutside={(event) => event.preventDefault()}
        >
          <Dialog.Title className="text-lg font-semibold">Sign in again</Dialog.Title>
          <Dialog.Description className="mt-1 mb-5 text-sm text-muted">
            Your session has ended. Nothing on this page is lost, and what was on its way will be sent.
          </Dialog.Description>
          <SignInForm
            username={user?.username}
            onSignedIn={(next) => {
              // Another person must not see this one's page.
              if (user && next.id !== user.id) window.location.assign("/");
              else signedIn(next);
            }}
          />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
