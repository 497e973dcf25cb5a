// Starts `rewriter lsp`, and runs its commands; everything else is asked of the server by the client library.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const [command, ...args] = vscode.workspace.getConfiguration("onnxRules").get("command");
  client = new LanguageClient(
    "onnx-rules",
    "ONNX rewrite rules",
    { command, args },
    { documentSelector: [{ language: "onnx-rules" }] }
  );
  return client.start().catch((error) => {
    vscode.window.showWarningMessage(`'${command}' does not start: ${error.message}. It needs pip install '.[editor]' in a clone of rewriter.`);
  });
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
