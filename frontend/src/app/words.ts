/** What the product says where the words depend on what happened. Plain sentences; no jargon; no blame. */

export const words = {
  failed: "Something went wrong on this page",
  runActive: "An answer is still being written here. Your message is kept below.",
  changedElsewhere: "Changed elsewhere: this conversation has newer messages. Your text is kept.",
  linkExpired:
    "That sign-in link has been used or has expired. Sign in with your password, or ask for a new link.",
  announce: {
    started: "The answer has started",
    finished: "The answer is complete",
    stopped: "The answer was stopped",
  },
  banner: {
    unreachable: "The server cannot be reached. Trying again by itself.",
    database: "The database is down: nothing can be saved or loaded at the moment.",
    runner: "No runner is working: your message is saved and will be answered when one is back.",
    live: "Live updates are unavailable; the answer goes on and will appear when it is finished.",
    worker: "Background worker is down: titles and summaries wait; answers still work.",
    model: "The model cannot be reached: answers will fail until it is back.",
  },
  ended: {
    stopped: "Stopped",
    interrupted: "Interrupted: the answer was cut off before its end.",
    failed: "The answer failed.",
    truncated: "The answer reached its length limit and may be incomplete.",
  },
} as const;
