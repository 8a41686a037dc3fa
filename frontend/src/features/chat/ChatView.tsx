/** One conversation on the page: its messages, its message box, and what is to be said about both. */
import { MessageSquareDashed } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useStore } from "zustand";

import { authStore } from "@/app/auth";
import { Button } from "@/ui/Button";

import { Composer } from "./Composer";
import { ConnectionBar } from "./ConnectionBar";
import type { ChatSession } from "./session";
import { Transcript } from "./Transcript";
import { useChat } from "./useChat";

/** Two presses of Escape within this many milliseconds stop an answer. */
const SECOND_PRESS = 1_000;

interface ChatViewProps {
  session: ChatSession;
  onNewChat: () => void;
}

export function ChatView({ session, onNewChat }: ChatViewProps): ReactNode {
  const phase = useChat(session, (state) => state.phase);
  const empty = useChat(
    session,
    (state) => state.messages.length === 0 && state.pending === null && state.live === null,
  );
  const announcement = useChat(session, (state) => state.announcement);
  const stopHint = useStopByEscape(session);

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <ConnectionBar session={session} />
      {phase === "loading" && <LoadingMessages />}
      {phase === "failed" && <LoadFailed session={session} />}
      {phase === "missing" && <Missing onNewChat={onNewChat} />}
      {(phase === "ready" || phase === "new") &&
        (empty ? <Greeting /> : <Transcript key={session.key} session={session} />)}
      {phase !== "missing" && (
        <div className="relative">
          <NoticeBar session={session} />
          <Composer session={session} />
        </div>
      )}
      {stopHint && (
        <p className="pointer-events-none fixed bottom-28 left-1/2 z-30 -translate-x-1/2 rounded-lg bg-ink px-3 py-1.5 text-sm text-bg">
          Press Esc again to stop
        </p>
      )}
      <div role="status" className="sr-only">
        <span key={announcement.number}>{announcement.text}</span>
      </div>
    </div>
  );
}

function useStopByEscape(session: ChatSession): boolean {
  const [hint, setHint] = useState(false);
  const first = useRef<number | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const press = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || event.shiftKey || event.defaultPrevented || event.isComposing) return;
      // An open menu or dialog closes first.
      if (document.querySelector("[role=dialog], [role=alertdialog], [role=menu]")) return;
      if (!session.state.live || session.state.stopping) return;
      clearTimeout(timer);
      if (first.current !== null && event.timeStamp - first.current <= SECOND_PRESS) {
        first.current = null;
        setHint(false);
        session.stop();
      } else {
        first.current = event.timeStamp;
        setHint(true);
        timer = setTimeout(() => setHint(false), SECOND_PRESS);
      }
    };
    window.addEventListener("keydown", press);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("keydown", press);
    };
  }, [session]);
  return hint;
}

function Greeting(): ReactNode {
  const name = useStore(authStore, (state) => state.user?.display_name);
  return (
    <div className="flex min-h-0 flex-1 flex-col items-center justify-center px-6 pb-[8vh] text-center">
      <h1 className="text-2xl font-semibold tracking-tight text-balance">
        {name ? `Hello, ${name}.` : "Hello."} What can I help with?
      </h1>
      <p className="mt-2 max-w-md text-sm text-pretty text-muted">
        Ask a question or paste something to work on. Answers are kept even if you close this page.
      </p>
    </div>
  );
}

const SHAPES = [
  "w-2/5 self-end h-11",
  "w-11/12",
  "w-full",
  "w-3/5",
  "w-1/3 self-end h-11",
  "w-full",
  "w-10/12",
];

function LoadingMessages(): ReactNode {
  return (
    <div className="min-h-0 flex-1 overflow-hidden" aria-busy="true">
      <p className="sr-only">Loading messages</p>
      <div className="mx-auto flex w-full max-w-[46rem] flex-col gap-3.5 px-4 pt-8 sm:px-6" aria-hidden>
        {SHAPES.map((shape) => (
          <div key={shape} className={`skeleton h-4 ${shape}`} />
        ))}
      </div>
    </div>
  );
}

function LoadFailed({ session }: { session: ChatSession }): ReactNode {
  const error = useChat(session, (state) => state.loadError);
  return (
    <div
      className="flex min-h-0 flex-1 flex-col items-center justify-center gap-4 px-6 text-center"
      role="alert"
    >
      <p>The conversation could not be loaded. {error}.</p>
      <Button onClick={() => void session.load()}>Retry</Button>
    </div>
  );
}

function Missing({ onNewChat }: { onNewChat: () => void }): ReactNode {
  return (
    <div className="flex min-h-0 flex-1 flex-col items-center justify-center gap-3 px-6 text-center">
      <MessageSquareDashed aria-hidden size={32} className="text-muted" />
      <h1 className="text-lg font-semibold">There is no such conversation</h1>
      <p className="text-sm text-muted">It may have been deleted, or it belongs to somebody else.</p>
      <Button weight="primary" className="mt-2" onClick={onNewChat}>
        New chat
      </Button>
    </div>
  );
}

function NoticeBar({ session }: { session: ChatSession }): ReactNode {
  const notice = useChat(session, (state) => state.notice);
  if (!notice) return null;
  return (
    <div className="mx-auto w-full max-w-[46rem] px-3 pb-2 sm:px-6">
      <div
        role="alert"
        className="flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl bg-danger-soft px-4 py-2.5 text-sm text-danger-ink"
      >
        <span className="min-w-0 flex-1 basis-52 break-words">{notice.text}</span>
        {notice.action === "retry" && <Button onClick={session.sendDraft}>Retry</Button>}
        {notice.action === "load_newer" && <Button onClick={session.loadNewer}>Load newer</Button>}
        <Button onClick={session.dismissNotice}>Dismiss</Button>
      </div>
    </div>
  );
}
