/** The first thing a person sees who is not signed in. */
import type { ReactNode } from "react";

import { words } from "@/app/words";
import { Wordmark } from "@/ui/Wordmark";
import type { UserBody } from "@/wire/schema";

import { SignInForm } from "./SignInForm";

interface SignInPageProps {
  linkExpired: boolean;
  onSignedIn: (user: UserBody) => void;
}

export function SignInPage({ linkExpired, onSignedIn }: SignInPageProps): ReactNode {
  return (
    <main className="flex min-h-dvh items-center justify-center bg-side px-4 py-10">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex justify-center text-xl">
          <Wordmark size={28} />
        </div>
        {linkExpired && (
          <p role="status" className="mb-4 rounded-xl bg-warn-soft px-4 py-3 text-sm text-warn-ink">
            {words.linkExpired}
          </p>
        )}
        <div className="rounded-2xl border border-line bg-surface p-6 sm:p-8">
          <h1 className="mb-5 text-lg font-semibold tracking-tight">Sign in</h1>
          <SignInForm onSignedIn={onSignedIn} />
        </div>
      </div>
    </main>
  );
}
