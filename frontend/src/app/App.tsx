/** Decides between signing in and working, and holds what every page needs. */
import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { BrowserRouter, Navigate, Route, Routes, useNavigate, useSearchParams } from "react-router";
import { useStore } from "zustand";

import { SignInPage } from "@/features/signin/SignInPage";
import { Button } from "@/ui/Button";
import { Wordmark } from "@/ui/Wordmark";

import { api, ApiError, body } from "./api";
import { authStore } from "./auth";
import { Shell } from "./Shell";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (count, error) =>
        count < 2 && !(error instanceof ApiError && error.status > 0 && !error.retryable),
    },
  },
});

export function App(): ReactNode {
  return (
    <QueryClientProvider client={client}>
      <BrowserRouter>
        <Entrance />
      </BrowserRouter>
    </QueryClientProvider>
  );
}

function Entrance(): ReactNode {
  const user = useStore(authStore, (state) => state.user);
  const session = useQuery({
    queryKey: ["session"],
    queryFn: () => body(api.GET("/api/auth/session")),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    enabled: user === null,
  });
  const found = session.data?.user ?? null;
  useEffect(() => {
    if (found && authStore.getState().user === null) authStore.setState({ user: found });
  }, [found]);

  if (session.isError && user === null) {
    return (
      <main role="alert" className="flex h-dvh flex-col items-center justify-center gap-4 px-6 text-center">
        <Wordmark size={28} />
        <h1 className="text-lg font-semibold">AgentX cannot be reached</h1>
        <p className="text-sm text-muted">{session.error.message}. The page tries nothing by itself here.</p>
        <Button weight="primary" onClick={() => void session.refetch()}>
          Retry
        </Button>
      </main>
    );
  }
  if (user === null && (session.isPending || found)) return <main className="h-dvh" aria-busy="true" />;
  return (
    <Routes>
      <Route path="/sign-in" element={user ? <Navigate to="/" replace /> : <SignInRoute />} />
      <Route path="*" element={user ? <Shell /> : <ToSignIn />} />
    </Routes>
  );
}

/** Remembers where a person wanted to go. */
function ToSignIn(): ReactNode {
  const here = window.location.pathname;
  return <Navigate to={here === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(here)}`} replace />;
}

function SignInRoute(): ReactNode {
  const [query] = useSearchParams();
  const navigate = useNavigate();
  const next = query.get("next");
  return (
    <SignInPage
      linkExpired={query.get("link") === "expired"}
      onSignedIn={(user) => {
        // Addresses of this site alone: `//elsewhere` would be another one's.
        const target = next && /^\/[^/\\]/.test(next) ? next : "/";
        void navigate(target, { replace: true });
        authStore.getState().signedIn(user);
      }}
    />
  );
}
