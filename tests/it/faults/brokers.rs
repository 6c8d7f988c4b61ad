//! Three brokers that keep three replicas and want two in sync: those that matter go, one after the other, under both guarantees.

use super::{Guarantee, Running, SOON, Trial};
use crate::harness::{Kafka, Postgres, eventually};
use std::time::Duration;

/// The brokers' own topic of transactions; it has one partition here.
const TRANSACTIONS: &str = "__transaction_state";

/// Two pipelines on a cluster.
struct Cluster<'a> {
    kafka: Kafka,
    pipelines: [Running<'a>; 2],
}

impl<'a> Cluster<'a> {
    async fn start(postgres: &'a Postgres) -> Self {
        let kafka = Kafka::cluster(3).await;
        let running = async |guarantee| {
            let trial = Trial::new(guarantee, postgres, &kafka).await;
            let trial = trial
                .set("kafka.replication_factor", "3")
                // A broker that sleeps is given up within seconds.
                .set("kafka.properties", "{ \"socket.timeout.ms\" = \"5000\" }");
            Running::start(trial).await
        };
        let pipelines = [
            running(Guarantee::AtLeastOnce).await,
            running(Guarantee::ExactlyOnce).await,
        ];
        Cluster { kafka, pipelines }
    }

    fn topics(&self) -> Vec<String> {
        self.pipelines.iter().flat_map(Running::topics).collect()
    }

    /// The broker that leads a partition.
    async fn leader(&self, topic: &str, partition: i32) -> i32 {
        eventually(&format!("{topic} has a leader"), SOON, async || {
            self.kafka.leader(topic, partition).await
        })
        .await
    }

    async fn another_leads(&self, topic: &str, partition: i32, than: i32) {
        eventually(&format!("another broker leads {topic}"), SOON, async || {
            let leader = self.kafka.leader(topic, partition).await?;
            (leader != than).then_some(())
        })
        .await;
    }

    async fn goes_on(&self) {
        for pipeline in &self.pipelines {
            pipeline.goes_on().await;
        }
    }

    async fn whole_again(&mut self) {
        self.kafka.start();
        self.kafka.all_in_sync(&self.topics()).await;
        self.goes_on().await;
    }

    async fn want_in_sync(&self, replicas: &str) {
        for topic in self.topics() {
            self.kafka
                .set_topic_config(&topic, "min.insync.replicas", replicas)
                .await;
        }
    }

    async fn verify(self) {
        for pipeline in self.pipelines {
            pipeline.verify().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_coordinator_or_with_too_few_replicas_nothing_is_lost() {
    let postgres = Postgres::shared(17);
    let mut cluster = Cluster::start(&postgres).await;

    eprintln!("the coordinator of the transactions is killed");
    let coordinator = cluster.leader(TRANSACTIONS, 0).await;
    cluster.kafka.kill_broker(coordinator);
    cluster.another_leads(TRANSACTIONS, 0, coordinator).await;
    cluster.goes_on().await;
    cluster.whole_again().await;

    eprintln!("two of three brokers are gone, and with them the controllers' majority");
    cluster.kafka.kill_broker(1);
    cluster.kafka.kill_broker(3);
    for pipeline in &cluster.pipelines {
        pipeline.nothing_is_confirmed(Duration::from_secs(10)).await;
    }
    cluster.whole_again().await;
    cluster.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: scripts/kills"]
async fn a_controller_or_leader_that_goes_stops_sleeps_or_has_no_space_left_loses_nothing() {
    let postgres = Postgres::shared(16);
    let mut cluster = Cluster::start(&postgres).await;
    let state = format!("{}.state", cluster.pipelines[1].trial.name);
    let data = cluster.pipelines[1].topics()[0].clone();

    eprintln!("the controller is killed");
    let controller = cluster.kafka.controller().expect("a controller");
    cluster.kafka.kill_broker(controller);
    eventually("another controller", SOON, async || {
        let another = cluster.kafka.controller();
        another.is_some_and(|id| id != controller).then_some(())
    })
    .await;
    cluster.goes_on().await;
    cluster.whole_again().await;

    eprintln!("min.insync.replicas is unmet");
    cluster.want_in_sync("3").await;
    cluster.kafka.kill_broker(2);
    for pipeline in &cluster.pipelines {
        pipeline.nothing_is_confirmed(Duration::from_secs(3)).await;
    }
    cluster.whole_again().await;
    cluster.want_in_sync("2").await;

    eprintln!("the leader of the positions hands over and stops");
    let leader = cluster.leader(&state, 0).await;
    cluster.kafka.stop_broker(leader).await;
    cluster.another_leads(&state, 0, leader).await;
    cluster.goes_on().await;
    cluster.whole_again().await;

    eprintln!("a leader sleeps until another one is elected, and wakes up");
    let leader = cluster.leader(&data, 0).await;
    cluster.kafka.freeze_broker(leader);
    cluster.another_leads(&data, 0, leader).await;
    cluster.goes_on().await;
    cluster.kafka.thaw_broker(leader);
    cluster.whole_again().await;

    eprintln!("the disk of a leader is full");
    let leader = cluster.leader(&data, 1).await;
    cluster.kafka.fill_disk_of_broker(leader).await;
    cluster.another_leads(&data, 1, leader).await;
    cluster.goes_on().await;
    cluster.whole_again().await;
    cluster.verify().await;
}
