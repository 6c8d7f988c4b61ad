//! A headless Chromium, driven by the DevTools protocol over two pipes.

use super::{Env, fresh};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A browser with one page. Time is UTC in it.
pub struct Browser {
    /// Ends with it.
    _child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    faults: Vec<String>,
    dir: PathBuf,
}

impl Browser {
    /// `WALFERRY_TEST_CHROMIUM`, with nothing loaded.
    ///
    /// # Panics
    /// When there is none.
    pub async fn start() -> Self {
        let program = std::env::var("WALFERRY_TEST_CHROMIUM").unwrap_or_else(|_| {
            panic!("WALFERRY_TEST_CHROMIUM is not set: this test needs a browser; run scripts/page")
        });
        let dir = Env::get().private_dir(&fresh("browser"));
        // It reads commands from descriptor 3 and answers on 4; the shell makes these of the pipes that we have.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2", &program])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
                "--lang=en-US",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", dir.join("profile").display()))
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("log")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut browser = Browser {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            _child: child,
            session: None,
            last_id: 0,
            faults: Vec::new(),
            dir,
        };
        let target = browser
            .command("Target.createTarget", json!({ "url": "about:blank" }))
            .await;
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.command("Target.attachToTarget", attached).await;
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.command(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Loads a page.
    pub async fn open(&mut self, url: &str) {
        let loaded = self.command("Page.navigate", json!({ "url": url })).await;
        assert_eq!(loaded.get("errorText"), None, "{url}");
        let there = format!("document.readyState === 'complete' && location.href === {}", json!(url));
        self.until(&there, Duration::from_secs(30)).await;
    }

    /// The value of a JavaScript expression.
    pub async fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.command("Runtime.evaluate", asked).await;
        assert_eq!(answer.get("exceptionDetails"), None, "{expression}");
        answer["result"]["value"].clone()
    }

    /// The text of an element.
    pub async fn text(&mut self, selector: &str) -> String {
        let text = self
            .value(&format!("document.querySelector({}).textContent", json!(selector)))
            .await;
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an expression holds.
    pub async fn until(&mut self, expression: &str, limit: Duration) {
        let begin = std::time::Instant::now();
        while self.value(expression).await != json!(true) {
            if begin.elapsed() > limit {
                let page = self.value("document.body?.innerText").await;
                panic!(
                    "not within {limit:?}: {expression}\n{}\n{:?}",
                    page.as_str().unwrap_or_default(),
                    self.faults
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A key is pressed and let go: `Tab`, `Enter`.
    pub async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            other => panic!("no code for the key {other}"),
        };
        let mut event = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if let Some(text) = text {
            event["text"] = json!(text);
        }
        self.command("Input.dispatchKeyEvent", event.clone()).await;
        event["type"] = json!("keyUp");
        self.command("Input.dispatchKeyEvent", event).await;
    }

    /// The window's width in pixels, and whether the user prefers dark.
    pub async fn look(&mut self, width: u32, dark: bool) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.command("Emulation.setDeviceMetricsOverride", metrics).await;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.command("Emulation.setEmulatedMedia", media).await;
    }

    /// All of the page, as a PNG.
    pub async fn picture(&mut self, path: &Path) {
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "optimizeForSpeed": false });
        let answer = self.command("Page.captureScreenshot", asked).await;
        let bytes = BASE64_STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// What assistive technology is told: roles with names.
    pub async fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.command("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let said = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes
            .filter(|node| node["ignored"] != true)
            .map(|node| (said(&node["role"]), said(&node["name"])))
            .collect()
    }

    /// Exceptions, and what the browser itself complains of, such as a breach of the policy.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    async fn command(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).await.unwrap();
        loop {
            let mut message = Vec::new();
            let reading = self.answers.read_until(0, &mut message);
            let limit = Duration::from_secs(60);
            let read = tokio::time::timeout(limit, reading).await;
            let read = read.unwrap_or_else(|_| panic!("{method}: no answer within {limit:?}{}", self.log()));
            assert!(read.unwrap() > 0, "{method}: the browser ended{}", self.log());
            message.pop();
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == id {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.faults.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.faults.push(params["entry"].to_string())
            }
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.faults.push(params["args"].to_string())
            }
            _ => {}
        }
    }

    fn log(&self) -> String {
        format!("\n--- the browser's log\n{}", super::tail(&self.dir.join("log"), 20))
    }
}
