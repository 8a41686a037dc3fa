/** What is happening while an answer is being written, with seconds, from the moment of sending. */
import type { ReactNode } from "react";

import { Button } from "@/ui/Button";

import type { ChatSession } from "./session";
import { useChat, useNow } from "./useChat";

export const STALLED_AFTER = 15_000;

export function StatusLine({ session }: { session: ChatSession }): ReactNode {
  const state = useChat(session, ({ link, pending, live, stopping, clock }) => ({
    link: link.kind,
    pending: pending !== null,
    writing: Boolean(live?.text),
    thinking: Boolean(live?.thinking),
    working: Boolean(live?.steps.some((step) => step.state === "running")),
    label: live?.status?.label ?? null,
    labelSeconds: live?.status?.seconds ?? null,
    stopping,
    startedAt: clock.startedAt,
    lastOutputAt: clock.lastOutputAt,
  }));
  const now = Math.max(useNow(true, 250), state.startedAt);
  const seconds = Math.floor((now - state.startedAt) / 1000);
  const silent = now - state.lastOutputAt;

  if (!state.stopping && !state.pending && !state.working && silent >= STALLED_AFTER) {
    return (
      <span className="flex flex-wrap items-center gap-2 pl-1.5">
        <span className="tabular-nums">No output for {Math.floor(silent / 1000)} s</span>
        <Button onClick={session.keepWaiting}>Keep waiting</Button>
        <Button onClick={session.stop}>Stop</Button>
      </span>
    );
  }
  const what = sayWhat(state);
  if (what === null) return null;
  return (
    <span className="flex items-center gap-2 pl-1.5 tabular-nums">
      <span className="running-dot" aria-hidden />
      {what}, {seconds} s
    </span>
  );
}

interface Said {
  link: string;
  pending: boolean;
  writing: boolean;
  thinking: boolean;
  label: string | null;
  stopping: boolean;
}

/** Null while the thinking bubble says it already. */
function sayWhat(state: Said): string | null {
  if (state.stopping) return "Stopping";
  if (state.pending && state.link === "offline") return "Will send when online";
  if (state.pending && state.link === "waiting") return "Will send when connected";
  if (state.pending) return "Sending";
  if (state.label) return state.label;
  if (state.writing) return "Writing";
  return state.thinking ? null : "Waiting for the answer";
}
