/** One answer, from the moment the question is sent. Its last line has one height in every state. */
import { CircleAlert, RotateCcw, Square } from "lucide-react";
import { memo, type ReactNode } from "react";

import { words } from "@/app/words";
import { CopyButton } from "@/features/markdown/CodeBlock";
import { Markdown } from "@/features/markdown/Markdown";
import { Button } from "@/ui/Button";

import { answerFacts } from "./facts";
import type { AnswerRow } from "./rows";
import type { ChatSession } from "./session";
import { thoughtOf } from "./state";
import { StatusLine } from "./StatusLine";
import { Steps } from "./Steps";
import { Thinking } from "./Thinking";
import type { Failure } from "./types";
import { useChat, useNow } from "./useChat";

interface AnswerProps {
  row: AnswerRow;
  session: ChatSession;
  /** Asking again is offered for the newest turn alone: an older one would be answered out of its place. */
  isLast: boolean;
}

export const Answer = memo(function Answer({ row, session, isLast }: AnswerProps): ReactNode {
  const live = useChat(session, (state) => (row.live ? state.live : null));
  const clock = useChat(session, (state) => (row.live ? state.clock : null));
  const thinkingNow = Boolean(live && live.thinking && !live.text && !live.closed);
  const now = useNow(thinkingNow, 500);
  const thought = live && clock ? thoughtOf(live, clock, Math.max(now, clock.lastOutputAt)) : row.thought;
  const text = row.message?.content ?? live?.text ?? "";
  const streaming = row.live && row.message === null;
  const retry =
    isLast && !row.live && row.question !== null ? () => session.send(row.question ?? "") : undefined;

  return (
    <article aria-label={`Assistant, message ${row.number}`} className="pb-6">
      {thought && <Thinking text={thought.text} live={thinkingNow} seconds={thought.seconds} />}
      <Steps steps={live && live.steps.length > 0 ? live.steps : row.steps} />
      {text && <Markdown text={text} streaming={streaming} />}
      {!row.live && <Ending row={row} retry={retry} />}
      <div className="mt-1 -ml-1.5 flex min-h-8 items-center gap-2 text-[0.8125rem] text-muted">
        {streaming ? <StatusLine session={session} /> : <Footer row={row} text={text} retry={retry} />}
      </div>
    </article>
  );
});

interface FooterProps {
  row: AnswerRow;
  text: string;
  retry: (() => void) | undefined;
}

function Footer({ row, text, retry }: FooterProps): ReactNode {
  const stopped = row.message ? row.message.status === "stopped" : row.failure?.status === "stopped";
  const facts = row.message ? answerFacts(row.message.metadata) : [];
  return (
    <>
      {stopped && (
        <span className="ml-1.5 inline-flex shrink-0 items-center gap-1.5 rounded-md bg-raised px-2 py-0.5 font-medium text-ink">
          <Square aria-hidden size={10} className="fill-current" />
          {words.ended.stopped}
        </span>
      )}
      {text && <CopyButton text={text} label="Copy answer" />}
      {stopped && retry && <RetryButton retry={retry} />}
      {facts.length > 0 && <span className="truncate pl-1 tabular-nums">{facts.join(" · ")}</span>}
    </>
  );
}

function RetryButton({ retry }: { retry: () => void }): ReactNode {
  return (
    <button type="button" className="quiet-button" onClick={retry}>
      <RotateCcw aria-hidden size={14} />
      Retry
    </button>
  );
}

/** Why an answer is not whole, when it is not. */
function Ending({ row, retry }: { row: AnswerRow; retry: (() => void) | undefined }): ReactNode {
  const status = row.message?.status ?? row.failure?.status;
  if (row.message?.metadata.truncated === true && status === "complete") {
    return <p className="mt-3 text-sm text-muted">{words.ended.truncated}</p>;
  }
  if (status !== "failed" && status !== "interrupted") return null;
  const text = causeOf(row, row.failure, status);
  return (
    <div
      role={row.failure?.seen ? "alert" : undefined}
      className="mt-3 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl bg-danger-soft px-4 py-3 text-sm text-danger-ink"
    >
      <CircleAlert aria-hidden size={18} className="shrink-0" />
      <span className="min-w-0 flex-1 basis-52 break-words">{text}</span>
      {retry && (
        <Button onClick={retry}>
          <RotateCcw aria-hidden size={14} />
          Retry
        </Button>
      )}
    </div>
  );
}

function causeOf(row: AnswerRow, failure: Failure | null, status: "failed" | "interrupted"): string {
  const stored = row.message?.metadata.error;
  const storedMessage =
    typeof stored === "object" && stored !== null && "message" in stored ? String(stored.message) : null;
  const cause = failure?.error?.message ?? storedMessage;
  if (!cause) return words.ended[status];
  return /[.!?…]$/.test(cause) ? cause : `${cause}.`;
}
