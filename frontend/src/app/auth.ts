/** Whether the session still stands. Kept apart from the pages so that work in progress survives signing in again. */
import { createStore } from "zustand/vanilla";

import type { UserBody } from "@/wire/schema";

interface AuthState {
  user: UserBody | null;
  expired: boolean;
  /** How often somebody has signed in since the page was opened: what was refused is tried again when it grows. */
  signIns: number;
  expire: () => void;
  signedIn: (user: UserBody) => void;
  signedOut: () => void;
}

export const authStore = createStore<AuthState>()((set) => ({
  user: null,
  expired: false,
  signIns: 0,
  expire: () => set((state) => (state.user ? { expired: true } : {})),
  signedIn: (user) => set((state) => ({ user, expired: false, signIns: state.signIns + 1 })),
  signedOut: () => set({ user: null, expired: false }),
}));

/** Runs `action` after each later sign-in; returns the function that ends this. */
export function onSignIn(action: () => void): () => void {
  return authStore.subscribe((state, before) => {
    if (state.signIns > before.signIns) action();
  });
}
