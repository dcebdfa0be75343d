#include "proxy/metrics_server.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr size_t kMostClients = 8;
constexpr size_t kMostRequest = 8'192;

FileDescriptor listen_at(const Endpoint& endpoint) {
    sockaddr_storage storage{};
    const socklen_t length = endpoint.to_sockaddr(storage);
    FileDescriptor fd(
        check(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
    const int on = 1;
    check(setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on),
          "setsockopt SO_REUSEADDR");
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 ||
        listen(fd.get(), SOMAXCONN) != 0) {
        throw SystemError(fmt::format("listen on {} (--metrics)", endpoint.text()));
    }
    return fd;
}

std::string response(std::string_view status, std::string_view type, std::string_view body) {
    return fmt::format("HTTP/1.0 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
                       "Connection: close\r\n\r\n{}",
                       status, type, body.size(), body);
}

} // namespace

std::string respond(const std::string& request, const MetricsServer::Page& page) {
    const std::string_view line = std::string_view(request).substr(0, request.find("\r\n"));
    if (!line.starts_with("GET ")) {
        return response("405 Method Not Allowed", "text/plain", "only GET\n");
    }
    const std::string_view target = line.substr(4, line.find_first_of(" ?", 4) - 4);
    if (target != "/metrics" && target != "/") {
        return response("404 Not Found", "text/plain", "see /metrics\n");
    }
    return response("200 OK", "text/plain; version=0.0.4", page());
}

MetricsServer::MetricsServer(const Endpoint& endpoint, Page page)
    : listener_(listen_at(endpoint)), page_(std::move(page)) {}

void MetricsServer::add_polls(std::vector<pollfd>& polls) const {
    if (!refused_) {
        polls.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
    }
    for (const Client& client : clients_) {
        polls.push_back({.fd = client.fd.get(), .events = POLLIN, .revents = 0});
    }
}

void MetricsServer::serve() {
    accept_some();
    std::erase_if(clients_, [this](Client& client) { return advance(client); });
}

void MetricsServer::accept_some() {
    for (size_t count = 0; count < kMostClients && !refused_; ++count) {
        FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.valid()) {
            refused_ = errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
        }
        const bool crowded = clients_.size() == kMostClients;
        if ((refused_ || (fd.valid() && crowded)) && !clients_.empty()) {
            clients_.pop_front(); // makes room, also of descriptors
        }
        if (!fd.valid()) {
            return;
        }
        clients_.push_back({.fd = std::move(fd), .request = {}});
    }
}

bool MetricsServer::advance(Client& client) const {
    std::array<char, 2'048> buffer{};
    const ssize_t got = recv(client.fd.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
        return got == 0 || errno != EAGAIN;
    }
    client.request.append(buffer.data(), static_cast<size_t>(got));
    if (client.request.find("\r\n\r\n") == std::string::npos) {
        return client.request.size() > kMostRequest;
    }
    // The page is far smaller than a fresh socket's buffer, so one send takes all of it.
    const std::string text = respond(client.request, page_);
    static_cast<void>(send(client.fd.get(), text.data(), text.size(), MSG_NOSIGNAL));
    return true;
}

} // namespace reprise::proxy
