/** What each frame of the socket that is not an event does to a session. */
import { words } from "@/app/words";

import { applyAttached, applyReset, freshRun } from "./live";
import type { ChatSession } from "./session";
import { isActive, mergeMessages } from "./state";
import type { Accepted, Attached, Refused, ServerFrame, Steering, Waiting } from "./types";

export function takeFrame(session: ChatSession, frame: ServerFrame): void {
  const { live } = session.state;
  switch (frame.type) {
    case "accepted":
      return takeAccepted(session, frame);
    case "refused":
      return takeRefused(session, frame);
    case "attached":
      return takeAttached(session, frame);
    case "reset":
      if (live?.runId === frame.run_id) session.patch({ live: applyReset(live, frame) });
      return;
    case "run_missing":
      session.concludeByRow(frame.run_id).catch(() => undefined);
      return;
    case "stopping":
      if (live?.runId === frame.run_id) session.patch({ stopping: isActive(frame.status) });
      return;
    case "steering":
      return takeSteering(session, frame);
    case "waiting":
      return takeWaiting(session, frame);
    case "titled":
      return session.activity();
    case "live":
      // Said of a run whose end was seen by other means, nothing would ever take it back.
      if (frame.available || live) session.setLiveAvailable(frame.available);
      return;
    default:
      return;
  }
}

function takeAccepted(session: ChatSession, frame: Accepted): void {
  const { pending, messages, live } = session.state;
  if (pending?.clientKey !== frame.client_key) return;
  session.patch({ pending: null, messages: mergeMessages(messages, [frame.message]) });
  session.saveDraft();
  session.activity();
  if (!isActive(frame.run.status) || session.ended.has(frame.run.id)) {
    void session.sync();
  } else if (live?.runId !== frame.run.id) {
    const run = { ...freshRun(frame.run.id), userSeq: frame.message.seq };
    session.begin(run, session.state.clock.startedAt || Date.now());
  }
}

function takeSteering(session: ChatSession, frame: Steering): void {
  const { steering, draft } = session.state;
  session.patch({ steering: steering.filter((item) => item.clientKey !== frame.client_key) });
  if (frame.withdrawn) session.setDraft([frame.steer.content, draft].filter(Boolean).join("\n\n"));
  session.saveDraft();
}

function takeWaiting(session: ChatSession, frame: Waiting): void {
  const told = new Set(frame.steers.map((steer) => steer.client_key));
  session.patch({
    waiting: { runId: frame.run_id, steers: frame.steers },
    steering: session.state.steering.filter((item) => !told.has(item.clientKey)),
  });
}

function takeAttached(session: ChatSession, frame: Attached): void {
  const { live } = session.state;
  if (session.ended.has(frame.run_id)) return;
  session.setLiveAvailable(true);
  if (live?.runId === frame.run_id) {
    session.patch({ live: applyAttached(live, frame) });
  } else if (frame.after === 0) {
    // Another tab or a script has sent a message here.
    session.begin(freshRun(frame.run_id, frame.epoch));
    session.activity();
  }
}

function takeRefused(session: ChatSession, frame: Refused): void {
  const { pending } = session.state;
  if (frame.command === "send") {
    if (!pending || pending.clientKey !== frame.client_key) return;
    if (frame.code === "run_active") {
      session.giveBack(words.runActive, "dismiss");
      void session.sync();
    } else if (frame.code === "head_moved") {
      session.giveBack(words.changedElsewhere, "load_newer");
    } else {
      session.giveBack(frame.message, frame.retryable ? "retry" : "dismiss");
    }
    return;
  }
  if (frame.command === "steer") return session.steerRefused(frame);
  if (frame.command === "withdraw") {
    session.patch({ notice: { text: frame.message, action: "dismiss" } });
    return;
  }
  if (frame.command === "stop") {
    session.patch({ stopping: false, notice: { text: frame.message, action: "dismiss" } });
  }
  if (frame.command === "attach") void session.sync();
}
