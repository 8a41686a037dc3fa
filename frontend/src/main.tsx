/** Starts the application in the page. */
import "./app/styles.css";

import { setNonce } from "get-nonce";
import { createRoot } from "react-dom/client";

import { App } from "./app/App";

// Style elements that are added while a dialog is open must carry the page's nonce.
const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content;
if (nonce) setNonce(nonce);

createRoot(document.getElementById("root")!).render(<App />);
