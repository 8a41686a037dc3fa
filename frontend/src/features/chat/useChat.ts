/** React's view of a session: each component subscribes to the part that it shows. */
import { useEffect, useState } from "react";
import { useStore } from "zustand";
import { useShallow } from "zustand/shallow";

import type { ChatSession } from "./session";
import type { ChatState } from "./state";

export function useChat<T>(session: ChatSession, select: (state: ChatState) => T): T {
  return useStore(session.store, useShallow(select));
}

/** The present time in milliseconds, renewed every `every` ms while `active`. */
export function useNow(active: boolean, every = 1_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!active) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [active, every]);
  return now;
}
