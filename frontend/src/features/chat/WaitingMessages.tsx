/** Messages for the running answer that it has not taken in yet, above the message box. */
import { CornerDownRight, Undo2 } from "lucide-react";
import type { ReactNode } from "react";

import type { ChatSession } from "./session";
import { useChat } from "./useChat";

export function WaitingMessages({ session }: { session: ChatSession }): ReactNode {
  const { steers, unconfirmed } = useChat(session, (state) => ({
    steers: state.waiting && state.waiting.runId === state.live?.runId ? state.waiting.steers : NONE,
    unconfirmed: state.steering,
  }));
  if (steers.length === 0 && unconfirmed.length === 0) return null;
  return (
    <section aria-label="Waiting messages" className="mb-2 px-2 text-sm">
      <p className="mb-1 text-muted">Read at the next step, or answered next</p>
      <ul className="flex flex-col gap-1">
        {steers.map((steer) => (
          <WaitingLine key={steer.id} text={steer.content}>
            {steer.status === "waiting" && (
              <button
                type="button"
                className="quiet-button shrink-0"
                aria-label={`Take back: ${steer.content.slice(0, 60)}`}
                onClick={() => session.withdraw(steer.id)}
              >
                <Undo2 aria-hidden size={14} />
                Take back
              </button>
            )}
          </WaitingLine>
        ))}
        {unconfirmed.map((item) => (
          <WaitingLine key={item.clientKey} text={item.content}>
            <span className="shrink-0 text-muted">Sending</span>
          </WaitingLine>
        ))}
      </ul>
    </section>
  );
}

const NONE: never[] = [];

function WaitingLine({ text, children }: { text: string; children: ReactNode }): ReactNode {
  return (
    <li className="flex min-h-8 items-center gap-2 rounded-xl bg-raised px-3">
      <CornerDownRight aria-hidden size={14} className="shrink-0 text-muted" />
      <span className="min-w-0 flex-1 truncate">{text}</span>
      {children}
    </li>
  );
}
