//! tonic: server and client of gRPC's health service.

use tonic::transport::{Channel, Server};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::run;

#[test]
fn tonic() {
    run(|| async {
        let (reporter, service) = tonic_health::server::health_reporter();
        let (listener, address) = super::listen().await;
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(async move {
            let server = Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        let mut client = HealthClient::new(channel.connect().await.unwrap());
        let request = || HealthCheckRequest {
            service: String::new(),
        };
        let answer = client.check(request()).await.unwrap().into_inner();
        assert_eq!(answer.status, ServingStatus::Serving as i32);
        // A stream of answers.
        let mut changes = client.watch(request()).await.unwrap().into_inner();
        let first = changes.message().await.unwrap().unwrap();
        reporter
            .set_service_status("", ServingStatus::NotServing)
            .await;
        let second = changes.message().await.unwrap().unwrap();
        assert_ne!(first.status, second.status);
    });
}
