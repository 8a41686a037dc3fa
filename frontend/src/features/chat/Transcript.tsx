/** The messages, of which only those near the visible part exist as elements. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown } from "lucide-react";
import { memo, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { Button } from "@/ui/Button";

import { Answer } from "./Answer";
import { Bubble } from "./Bubble";
import { assembleRows, type QuestionRow, type Row } from "./rows";
import type { ChatSession } from "./session";
import { useChat } from "./useChat";

/** The view follows the end while it is no further away than this, in pixels. */
const FOLLOW_WITHIN = 80;
/** Older messages are fetched when the top is this close, in pixels. */
const FETCH_WITHIN = 1_200;

/** A first guess at a row's height in pixels: 70 characters a line. Measured as soon as it is shown. */
function estimateRow(row: Row | undefined): number {
  if (!row) return 100;
  const text = row.kind === "question" ? row.text : (row.message?.content ?? "");
  const lines = Math.ceil(text.length / 70) + (text.match(/\n/g)?.length ?? 0);
  return row.kind === "question" ? 56 + lines * 26 : 90 + lines * 28;
}

export function Transcript({ session }: { session: ChatSession }): ReactNode {
  const messages = useChat(session, (state) => state.messages);
  const failures = useChat(session, (state) => state.failures);
  const thoughts = useChat(session, (state) => state.thoughts);
  const pending = useChat(session, (state) => state.pending);
  const runId = useChat(session, (state) => state.live?.runId ?? null);
  const userSeq = useChat(session, (state) => state.live?.userSeq ?? null);
  const hasBefore = useChat(session, (state) => state.hasBefore);
  const before = useChat(session, (state) => state.before);
  const rows = useMemo(
    () => assembleRows({ messages, failures, thoughts, pending, live: runId ? { runId, userSeq } : null }),
    [messages, failures, thoughts, pending, runId, userSeq],
  );
  const scroller = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState(false);

  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => estimateRow(rows[index]),
    getItemKey: (index) => rows[index]?.key ?? index,
    overscan: 4,
    anchorTo: "end",
    followOnAppend: true,
    scrollEndThreshold: FOLLOW_WITHIN,
    paddingStart: 24,
    paddingEnd: 8,
  });

  useLayoutEffect(() => virtualizer.scrollToEnd(), [virtualizer]);

  // What a person sends is always brought into view.
  const clientKey = pending?.clientKey;
  useLayoutEffect(() => {
    if (clientKey) virtualizer.scrollToEnd();
  }, [clientKey, virtualizer]);

  useEffect(() => {
    const element = scroller.current!;
    let height = element.clientHeight;
    const look = (): void => {
      const distance = element.scrollHeight - element.scrollTop - element.clientHeight;
      setAway(distance > FOLLOW_WITHIN);
      if (element.scrollTop < FETCH_WITHIN && session.state.before === "idle") void session.loadOlder();
    };
    // A box that grows below, or a keyboard that comes up, must not push the end out of view.
    const observer = new ResizeObserver(() => {
      const lost = height - element.clientHeight;
      const distance = element.scrollHeight - element.scrollTop - element.clientHeight;
      height = element.clientHeight;
      if (lost > 0 && distance - lost <= FOLLOW_WITHIN) element.scrollTop += distance;
      look();
    });
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [session]);

  const items = virtualizer.getVirtualItems();
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={scroller}
        role="log"
        aria-live="off"
        aria-label="Messages"
        // Focusable, so that the keyboard can scroll it.
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        data-testid="transcript"
        className="h-full overflow-x-hidden overflow-y-auto [overflow-anchor:none] focus-visible:outline-offset-[-3px]"
      >
        <div className="relative" style={{ height: virtualizer.getTotalSize() }}>
          {hasBefore && (
            <div className="absolute inset-x-0 top-0 z-10 flex h-6 items-center justify-center text-xs text-muted">
              {before === "failed" ? (
                <Button onClick={() => void session.loadOlder()}>Load earlier messages</Button>
              ) : (
                "Loading earlier messages"
              )}
            </div>
          )}
          <div
            className="absolute inset-x-0 top-0"
            style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}
          >
            {items.map((item) => (
              <div
                key={item.key}
                ref={virtualizer.measureElement}
                data-index={item.index}
                className="flow-root"
              >
                <div className="mx-auto w-full max-w-[46rem] px-4 sm:px-6">
                  <RowView
                    row={rows[item.index]!}
                    session={session}
                    isLast={item.index === rows.length - 1}
                  />
                </div>
              </div>
            ))}
          </div>
        </div>
      </div>
      {away && (
        <button
          type="button"
          onClick={() => virtualizer.scrollToEnd()}
          className="touch fade-in absolute bottom-3 left-1/2 z-20 inline-flex h-9 -translate-x-1/2 items-center gap-1.5 rounded-full border border-line-strong bg-surface px-3.5 text-sm font-medium whitespace-nowrap shadow-panel hover:bg-hover"
        >
          <ArrowDown aria-hidden size={15} />
          Jump to latest message
        </button>
      )}
    </div>
  );
}

interface RowViewProps {
  row: Row;
  session: ChatSession;
  isLast: boolean;
}

function RowView({ row, session, isLast }: RowViewProps): ReactNode {
  return row.kind === "question" ? (
    <Question text={row.text} number={row.number} sending={row.sending} />
  ) : (
    <Answer row={row} session={session} isLast={isLast} />
  );
}

const Question = memo(function Question({
  text,
  number,
  sending,
}: Pick<QuestionRow, "text" | "number" | "sending">): ReactNode {
  return (
    <article aria-label={`You, message ${number}`} className="flex justify-end pb-6" aria-busy={sending}>
      <Bubble>{text}</Bubble>
    </article>
  );
});
