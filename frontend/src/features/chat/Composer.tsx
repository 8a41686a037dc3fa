/** The message box. What is typed belongs to the session, so nothing that happens here can lose it. */
import { ArrowUp, Square } from "lucide-react";
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";

import { isSendKey } from "./keys";
import type { ChatSession } from "./session";
import { WaitingMessages } from "./WaitingMessages";
import { useChat } from "./useChat";

export const MESSAGE_BOX = "message-box";

function isCoarse(): boolean {
  return window.matchMedia?.("(pointer: coarse)").matches ?? false;
}

export function Composer({ session }: { session: ChatSession }): ReactNode {
  const draft = useChat(session, (state) => state.draft);
  const busy = useChat(session, (state) => state.live !== null || state.pending !== null);
  const running = useChat(session, (state) => state.live !== null);
  const stopping = useChat(session, (state) => state.stopping);
  const blocked = useChat(session, (state) => state.phase === "missing" || state.phase === "failed");
  const box = useRef<HTMLTextAreaElement>(null);

  useLayoutEffect(() => {
    const area = box.current!;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }, [draft]);

  // Where typing is the next thing to do; on a phone the keyboard would cover half the page.
  useEffect(() => {
    if (!isCoarse()) box.current?.focus({ preventScroll: true });
  }, [session]);

  const confirming = busy && !running;
  const canSend = draft.trim() !== "" && !confirming && !blocked;
  return (
    <form
      className="mx-auto w-full max-w-[46rem] px-3 pb-[max(0.75rem,env(safe-area-inset-bottom))] sm:px-6 sm:pb-4"
      onSubmit={(event) => {
        event.preventDefault();
        session.sendDraft();
      }}
    >
      <WaitingMessages session={session} />
      <div className="flex items-end gap-2 rounded-3xl border border-line-strong bg-surface p-2 pl-4 shadow-[0_1px_4px_rgb(0_0_0/6%)] transition-colors focus-within:border-accent">
        <textarea
          ref={box}
          id={MESSAGE_BOX}
          aria-label="Message"
          placeholder={running ? "Add to the running answer" : "Message AgentX"}
          rows={1}
          value={draft}
          enterKeyHint={isCoarse() ? "enter" : "send"}
          autoComplete="off"
          className="max-h-[40dvh] min-h-9 flex-1 resize-none self-center bg-transparent py-1.5 text-base leading-6 outline-none"
          onChange={(event) => session.setDraft(event.target.value)}
          onKeyDown={(event) => {
            const { key, shiftKey, altKey, ctrlKey, metaKey, keyCode } = event;
            const isComposing = event.nativeEvent.isComposing;
            if (isSendKey({ key, shiftKey, altKey, ctrlKey, metaKey, keyCode, isComposing }, isCoarse())) {
              event.preventDefault();
              session.sendDraft();
            }
          }}
        />
        {running && (
          <button
            type="button"
            aria-label="Stop generating"
            title="Stop generating"
            aria-disabled={stopping}
            onClick={session.stop}
            className="touch inline-flex size-9 shrink-0 items-center justify-center rounded-full bg-ink text-bg transition-opacity hover:opacity-85 aria-disabled:opacity-50"
          >
            <Square aria-hidden size={13} className="fill-current" />
          </button>
        )}
        {(!running || canSend) && (
          <button
            type="submit"
            aria-label={running ? "Send to the running answer" : "Send message"}
            title={running ? "Send to the running answer" : "Send message"}
            aria-disabled={!canSend}
            className="touch inline-flex size-9 shrink-0 items-center justify-center rounded-full bg-accent text-on-accent transition-colors hover:bg-accent-strong aria-disabled:cursor-default aria-disabled:bg-raised aria-disabled:text-muted"
          >
            <ArrowUp aria-hidden size={18} />
          </button>
        )}
      </div>
    </form>
  );
}
