/** Name and password, on a page of its own or in a dialog over work in progress. */
import { type ReactNode, useState } from "react";

import { api, ApiError, body } from "@/app/api";
import { Button } from "@/ui/Button";
import type { UserBody } from "@/wire/schema";

interface SignInFormProps {
  username?: string;
  onSignedIn: (user: UserBody) => void;
}

const FIELD =
  "touch mt-1.5 h-10 w-full rounded-lg border border-line-strong bg-bg px-3 text-base outline-none transition-colors focus-visible:border-accent focus-visible:outline-2 focus-visible:outline-offset-0";

export function SignInForm({ username: known = "", onSignedIn }: SignInFormProps): ReactNode {
  const [username, setUsername] = useState(known);
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);

  const submit = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const { user } = await body(api.POST("/api/auth/sign-in", { body: { username, password } }));
      if (user) onSignedIn(user);
    } catch (failure) {
      setError(failure instanceof ApiError ? failure.message : "Something went wrong");
      setPassword("");
    } finally {
      setBusy(false);
    }
  };

  return (
    <form
      className="text-left"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy) void submit();
      }}
    >
      <label className="block text-sm font-medium">
        Username
        <input
          className={FIELD}
          name="username"
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          required
          maxLength={150}
          value={username}
          onChange={(event) => setUsername(event.target.value)}
        />
      </label>
      <label className="mt-4 block text-sm font-medium">
        Password
        <input
          className={FIELD}
          name="password"
          type="password"
          autoComplete="current-password"
          required
          maxLength={1000}
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
      </label>
      <p role="alert" className="min-h-10 pt-2 text-sm text-danger-ink">
        {error && `${error}.`}
      </p>
      <Button type="submit" weight="primary" className="h-10 w-full" aria-disabled={busy}>
        {busy ? "Signing in" : "Sign in"}
      </Button>
    </form>
  );
}
