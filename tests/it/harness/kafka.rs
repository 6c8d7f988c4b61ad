//! Kafka: the shared broker, or a private one that can be killed, frozen and started again on its port and data.

use super::{Env, Proxy, eventually, free_port, fresh, run, signal, tail, test_env_script};
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

/// Beside the usual settings, of a broker that is one of three. What has gone is noticed within seconds.
const CLUSTER: &[(&str, &str)] = &[
    ("min.insync.replicas", "2"),
    ("offsets.topic.replication.factor", "3"),
    ("transaction.state.log.replication.factor", "3"),
    ("transaction.state.log.min.isr", "2"),
    ("transaction.state.log.num.partitions", "1"),
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("replica.lag.time.max.ms", "5000"),
];

pub struct Kafka {
    /// All brokers', with commas between.
    pub address: String,
    /// Those of the test's own, in the order of their ids, which begin with 1.
    brokers: Vec<Broker>,
}

struct Broker {
    dir: PathBuf,
    child: Option<Child>,
    memory: &'static str,
}

impl Broker {
    /// Makes its directory, with these settings beside the usual ones.
    fn init(arguments: &[String], memory: &'static str, settings: &[(&str, &str)]) -> Self {
        let dir = Env::get().private_dir(&fresh("kafka"));
        run(Command::new(test_env_script())
            .arg("kafka-init")
            .arg(&dir)
            .args(arguments));
        let properties = dir.join("server.properties");
        let mut text = std::fs::read_to_string(&properties).unwrap();
        for (key, value) in settings {
            text.push_str(&format!("{key}={value}\n"));
        }
        std::fs::write(&properties, text).unwrap();
        Broker {
            dir,
            child: None,
            memory,
        }
    }

    fn start(&mut self) {
        let env = Env::get();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .unwrap();
        let started = Command::new(&env.java)
            .args([
                self.memory,
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
            ])
            .arg(env.kafka_lib.join("*"))
            .args(["kafka.Kafka", "server.properties"])
            .current_dir(&self.dir)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        std::fs::write(self.dir.join("pid"), started.id().to_string()).unwrap();
        self.child = Some(started);
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("a broker that runs")
    }

    fn kill(&mut self) {
        let child = self.child();
        child.kill().unwrap();
        child.wait().unwrap();
        self.child = None;
    }
}

impl Kafka {
    pub fn shared() -> Self {
        Kafka {
            address: Env::get().kafka.clone(),
            brokers: Vec::new(),
        }
    }

    /// A broker of the test's own, ready.
    pub async fn private() -> Self {
        Self::private_with(&[]).await
    }

    /// A broker that is reached by the proxy at [`Self::address`]; and directly, at `direct`.
    pub async fn behind_a_proxy() -> (Self, Proxy, String) {
        let (inner, outer) = (free_port(), free_port());
        let proxy = Proxy::start(outer).await;
        let settings = [
            ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
            (
                "listener.security.protocol.map",
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTER:PLAINTEXT".to_owned(),
            ),
            (
                "advertised.listeners",
                format!("PLAINTEXT://127.0.0.1:{inner},OUTER://127.0.0.1:{}", proxy.port),
            ),
        ];
        let controller = free_port();
        let listeners =
            format!("PLAINTEXT://127.0.0.1:{inner},OUTER://127.0.0.1:{outer},CONTROLLER://127.0.0.1:{controller}");
        let mut settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        settings.push(("listeners", &listeners));
        let arguments = [inner.to_string(), controller.to_string()];
        let mut kafka = Kafka {
            address: format!("127.0.0.1:{}", proxy.port),
            brokers: vec![Broker::init(&arguments, "-Xmx512m", &settings)],
        };
        kafka.start();
        kafka.ready().await;
        (kafka, proxy, format!("127.0.0.1:{inner}"))
    }

    /// The same, with these settings beside the usual ones.
    pub async fn private_with(settings: &[(&str, &str)]) -> Self {
        let (port, controller) = (free_port(), free_port());
        let arguments = [port.to_string(), controller.to_string()];
        let mut kafka = Kafka {
            address: format!("127.0.0.1:{port}"),
            brokers: vec![Broker::init(&arguments, "-Xmx512m", settings)],
        };
        kafka.start();
        kafka.ready().await;
        kafka
    }

    /// So many brokers, each a controller too, that keep three replicas of everything and want two of them in sync; ready.
    pub async fn cluster(size: usize) -> Self {
        let ports: Vec<(u16, u16)> = (0..size).map(|_| (free_port(), free_port())).collect();
        let voters: Vec<String> = ports
            .iter()
            .zip(1..)
            .map(|((_, controller), id)| format!("{id}@127.0.0.1:{controller}"))
            .collect();
        let voters = voters.join(",");
        let addresses: Vec<String> = ports.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        let making: Vec<_> = ports
            .into_iter()
            .zip(1..)
            .map(|((port, controller), id): (_, u32)| {
                let arguments = [port.to_string(), controller.to_string(), id.to_string(), voters.clone()];
                std::thread::spawn(move || Broker::init(&arguments, "-Xmx256m", CLUSTER))
            })
            .collect();
        let mut kafka = Kafka {
            address: addresses.join(","),
            brokers: making.into_iter().map(|thread| thread.join().unwrap()).collect(),
        };
        kafka.start();
        kafka.all_in_sync(&[]).await;
        kafka
    }

    /// Starts every broker that does not run.
    pub fn start(&mut self) {
        for broker in self.brokers.iter_mut().filter(|broker| broker.child.is_none()) {
            broker.start();
        }
    }

    /// kill -9 of one broker.
    pub fn kill_broker(&mut self, id: i32) {
        self.broker(id).kill();
    }

    /// SIGTERM to one broker: it hands its leaderships over and ends.
    pub async fn stop_broker(&mut self, id: i32) {
        let broker = self.broker(id);
        signal(broker.child(), Signal::TERM);
        eventually(&format!("broker {id} ends"), Duration::from_secs(60), async || {
            broker.child().try_wait().unwrap()
        })
        .await;
        broker.child = None;
    }

    /// One broker stops, its sockets stay.
    pub fn freeze_broker(&mut self, id: i32) {
        signal(self.broker(id).child(), Signal::STOP);
    }

    pub fn thaw_broker(&mut self, id: i32) {
        signal(self.broker(id).child(), Signal::CONT);
    }

    /// No file of one broker grows any more, as on a full disk. The broker ends by that.
    pub async fn fill_disk_of_broker(&mut self, id: i32) {
        let broker = self.broker(id);
        let pid = rustix::process::Pid::from_child(broker.child());
        let none = rustix::process::Rlimit {
            current: Some(1),
            maximum: Some(1),
        };
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, none).unwrap();
        eventually(
            &format!("broker {id} ends for want of space"),
            Duration::from_secs(60),
            async || broker.child().try_wait().unwrap(),
        )
        .await;
        broker.child = None;
    }

    fn broker(&mut self, id: i32) -> &mut Broker {
        let at = usize::try_from(id).unwrap() - 1;
        self.brokers.get_mut(at).expect("a broker of that id")
    }

    /// Waits until each broker is known, and the replicas of these topics and of the brokers' own are all in sync.
    pub async fn all_in_sync(&self, topics: &[String]) {
        let (size, log) = (self.brokers.len(), self.log());
        eventually(
            &format!("{size} brokers in sync\n{log}"),
            Duration::from_secs(120),
            async || {
                let metadata = self.metadata().await?;
                let own = |name: &str| name.starts_with("__") || topics.iter().any(|topic| topic == name);
                let known = topics
                    .iter()
                    .all(|topic| metadata.iter().any(|(name, ..)| name == topic));
                let in_sync = metadata
                    .iter()
                    .filter(|(name, ..)| own(name))
                    .all(|(.., replicas)| *replicas == size);
                (known && in_sync && self.number_of_brokers().await == size).then_some(())
            },
        )
        .await;
    }

    async fn number_of_brokers(&self) -> usize {
        let address = self.address.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let consumer = quiet(&address);
            let metadata = consumer.fetch_metadata(None, Duration::from_secs(2));
            metadata.map_or(0, |metadata| metadata.brokers().len())
        });
        asking.await.unwrap()
    }

    /// Topic, partition, leader and number of replicas in sync, of each partition; none while nobody answers.
    async fn metadata(&self) -> Option<Vec<(String, i32, i32, usize)>> {
        let address = self.address.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let consumer = quiet(&address);
            let metadata = consumer.fetch_metadata(None, Duration::from_secs(2)).ok()?;
            let of_topics = metadata.topics().iter().flat_map(|topic| {
                topic.partitions().iter().map(|partition| {
                    (
                        topic.name().to_owned(),
                        partition.id(),
                        partition.leader(),
                        partition.isr().len(),
                    )
                })
            });
            Some(of_topics.collect())
        });
        asking.await.unwrap()
    }

    /// Which broker leads a partition, if one does.
    pub async fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        let metadata = self.metadata().await?;
        let found = metadata.iter().find(|(name, id, ..)| name == topic && *id == partition);
        found.map(|(_, _, leader, _)| *leader).filter(|leader| *leader > 0)
    }

    /// Which broker is the active controller, as those that run have it in their files.
    pub fn controller(&self) -> Option<i32> {
        let running = self.brokers.iter().filter(|broker| broker.child.is_some());
        let elected = running.filter_map(|broker| {
            let file = broker.dir.join("data/__cluster_metadata-0/quorum-state");
            let state: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
            let leader = i32::try_from(state["leaderId"].as_i64()?).ok()?;
            (leader > 0).then_some((state["leaderEpoch"].as_i64()?, leader))
        });
        elected.max().map(|(_, leader)| leader)
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
                    quiet(&address)
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

    /// kill -9 of every broker.
    pub fn kill(&mut self) {
        self.brokers.iter_mut().for_each(Broker::kill);
    }

    /// The processes stop, their sockets stay: as if the network swallowed everything.
    pub fn freeze(&mut self) {
        for broker in &mut self.brokers {
            signal(broker.child(), Signal::STOP);
        }
    }

    pub fn thaw(&mut self) {
        for broker in &mut self.brokers {
            signal(broker.child(), Signal::CONT);
        }
    }

    fn log(&self) -> String {
        let logs = self.brokers.iter().map(|broker| tail(&broker.dir.join("log"), 30));
        logs.collect::<Vec<_>>().join("\n")
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

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn quiet(address: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("log_level", "0")
        .create()
        .unwrap()
}
