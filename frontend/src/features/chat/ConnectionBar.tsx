/** Says that the connection is gone, when it comes back, and how to hurry that. Says nothing while all is well. */
import { WifiOff } from "lucide-react";
import type { ReactNode } from "react";

import { Button } from "@/ui/Button";

import type { ChatSession } from "./session";
import { useChat, useNow } from "./useChat";

export function ConnectionBar({ session }: { session: ChatSession }): ReactNode {
  const link = useChat(session, (state) => state.link);
  const lost =
    link.kind === "waiting" || link.kind === "offline" || (link.kind === "connecting" && link.attempt > 0);
  const now = useNow(lost, 250);
  if (!lost) return null;
  const seconds = link.kind === "waiting" ? Math.max(0, Math.ceil((link.until - now) / 1000)) : 0;
  const part = link.kind === "waiting" ? (link.until - now) / Math.max(1, link.until - link.since) : 0;
  return (
    <div className="relative border-b border-line bg-warn-soft text-sm text-warn-ink" role="status">
      <div className="mx-auto flex min-h-10 max-w-[46rem] items-center gap-2.5 px-4 py-1 sm:px-6">
        <WifiOff aria-hidden size={16} className="shrink-0" />
        {link.kind === "offline" ? (
          <span>You are offline. Messages will be sent when you are online again.</span>
        ) : (
          <>
            <span className="flex-1">
              Reconnecting…
              {/* Not read aloud every second. */}
              <span aria-hidden className="tabular-nums">
                {seconds > 0 ? ` in ${seconds} s` : ""}
              </span>
            </span>
            <Button onClick={session.reconnect}>Retry now</Button>
          </>
        )}
      </div>
      <div
        aria-hidden
        className="absolute inset-x-0 bottom-0 h-0.5 origin-left bg-current opacity-60"
        style={{ transform: `scaleX(${Math.min(1, Math.max(0, part))})` }}
      />
    </div>
  );
}
