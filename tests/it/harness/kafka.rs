//! Kafka: the shared broker, or a private one that can be killed, frozen and started again on its port and data.

use super::{Env, eventually, free_port, fresh, run, signal, tail, test_env_script};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

pub struct Kafka {
    pub address: String,
    private: Option<(PathBuf, Option<Child>)>,
}

impl Kafka {
    pub fn shared() -> Self {
        Kafka {
            address: Env::get().kafka.clone(),
            private: None,
        }
    }

    /// A broker of the test's own, ready.
    pub async fn private() -> Self {
        Self::private_with(&[]).await
    }

    /// The same, with these settings beside the usual ones.
    pub async fn private_with(settings: &[(&str, &str)]) -> Self {
        let dir = Env::get().private_dir(&fresh("kafka"));
        let (port, controller) = (free_port(), free_port());
        run(Command::new(test_env_script())
            .arg("kafka-init")
            .arg(&dir)
            .args([port.to_string(), controller.to_string()]));
        let properties = dir.join("server.properties");
        let mut text = std::fs::read_to_string(&properties).unwrap();
        for (key, value) in settings {
            text.push_str(&format!("{key}={value}\n"));
        }
        std::fs::write(&properties, text).unwrap();
        let mut kafka = Kafka {
            address: format!("127.0.0.1:{port}"),
            private: Some((dir, None)),
        };
        kafka.start();
        kafka.ready().await;
        kafka
    }

    pub fn start(&mut self) {
        let (dir, child) = self.private.as_mut().expect("a private broker");
        let env = Env::get();
        let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let started = Command::new(&env.java)
            .args([
                "-Xmx512m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
            ])
            .arg(env.kafka_lib.join("*"))
            .args(["kafka.Kafka", "server.properties"])
            .current_dir(&*dir)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        std::fs::write(dir.join("pid"), started.id().to_string()).unwrap();
        *child = Some(started);
    }

    /// Waits until the broker answers.
    pub async fn ready(&self) {
        let address = self.address.clone();
        let log = self.log();
        eventually(
            &format!("Kafka answers at {address}\n{log}"),
            Duration::from_secs(90),
            async || {
                let address = address.clone();
                tokio::task::spawn_blocking(move || {
                    let consumer: BaseConsumer = ClientConfig::new()
                        .set("bootstrap.servers", &address)
                        .set("log_level", "0")
                        .create()
                        .unwrap();
                    consumer
                        .fetch_metadata(None, Duration::from_secs(2))
                        .is_ok_and(|m| !m.brokers().is_empty())
                })
                .await
                .unwrap()
                .then_some(())
            },
        )
        .await;
    }

    fn child(&mut self) -> &mut Child {
        self.private
            .as_mut()
            .and_then(|(_, child)| child.as_mut())
            .expect("a private broker that runs")
    }

    pub fn kill(&mut self) {
        let child = self.child();
        child.kill().unwrap();
        child.wait().unwrap();
        self.private.as_mut().expect("a private broker").1 = None;
    }

    /// The process stops, its sockets stay: as if the network swallowed everything.
    pub fn freeze(&mut self) {
        signal(self.child(), Signal::STOP);
    }

    pub fn thaw(&mut self) {
        signal(self.child(), Signal::CONT);
    }

    fn log(&self) -> String {
        self.private
            .as_ref()
            .map(|(dir, _)| tail(&dir.join("log"), 30))
            .unwrap_or_default()
    }

    pub async fn create_topic(&self, topic: &str, partitions: i32) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.address)
            .create()
            .unwrap();
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for result in admin.create_topics([&new], &AdminOptions::new()).await.unwrap() {
            result.unwrap();
        }
    }

    pub async fn set_topic_config(&self, topic: &str, key: &str, value: &str) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.address)
            .create()
            .unwrap();
        let altered = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(key, value);
        for result in admin.alter_configs([&altered], &AdminOptions::new()).await.unwrap() {
            result.unwrap();
        }
    }

    /// The configuration that is in force for a topic.
    pub async fn topic_config(&self, topic: &str) -> BTreeMap<String, String> {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.address)
            .create()
            .unwrap();
        let topic = ResourceSpecifier::Topic(topic);
        let mut described = admin.describe_configs([&topic], &AdminOptions::new()).await.unwrap();
        let entries = described.remove(0).unwrap().entries.into_iter();
        entries
            .map(|entry| (entry.name, entry.value.unwrap_or_default()))
            .collect()
    }

    /// The value that stands last under a key of a topic of one partition, of what is committed.
    pub async fn last_value(&self, topic: &str, key: &str) -> String {
        let (address, topic, key) = (self.address.clone(), topic.to_owned(), key.to_owned());
        tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = ClientConfig::new()
                .set("bootstrap.servers", &address)
                .set("group.id", "last-value")
                .set("enable.auto.commit", "false")
                .set("enable.partition.eof", "true")
                .set("isolation.level", "read_committed")
                .create()
                .unwrap();
            let mut all = TopicPartitionList::new();
            all.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
            consumer.assign(&all).unwrap();
            let mut last = None;
            loop {
                match consumer
                    .poll(Duration::from_secs(30))
                    .expect("the end of the topic within 30 s")
                {
                    Err(KafkaError::PartitionEOF(_)) => break,
                    Err(error) => panic!("{topic}: {error}"),
                    Ok(message) if message.key() == Some(key.as_bytes()) => {
                        last = message
                            .payload()
                            .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
                    }
                    Ok(_) => {}
                }
            }
            last.unwrap_or_else(|| panic!("nothing stands under {key} in {topic}"))
        })
        .await
        .unwrap()
    }

    /// The topics whose name begins so, sorted.
    pub async fn topics(&self, prefix: &str) -> Vec<String> {
        let (address, prefix) = (self.address.clone(), prefix.to_owned());
        tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &address).create().unwrap();
            let metadata = consumer.fetch_metadata(None, Duration::from_secs(10)).unwrap();
            let mut names: Vec<String> = metadata
                .topics()
                .iter()
                .map(|t| t.name().to_owned())
                .filter(|n| n.starts_with(&prefix))
                .collect();
            names.sort();
            names
        })
        .await
        .unwrap()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if let Some((dir, child)) = &mut self.private {
            if let Some(child) = child {
                let _ = child.kill();
                let _ = child.wait();
            }
            if !std::thread::panicking() {
                let _ = std::fs::remove_dir_all(dir);
            }
        }
    }
}
