#pragma once
// A single page over HTTP for Prometheus, served between packets: nothing here ever waits.

#include "core/base/address.hh"
#include "core/base/fd.hh"

#include <deque>
#include <functional>
#include <poll.h>
#include <string>
#include <vector>

namespace reprise::proxy {

class MetricsServer {
public:
    using Page = std::function<std::string()>;

    /// Listens at once. `page` is asked once for each request. Throws SystemError.
    MetricsServer(const Endpoint& endpoint, Page page);

    /// Adds what this server waits for.
    void add_polls(std::vector<pollfd>& polls) const;

    /// Does what can be done without waiting. A client that is slow to ask makes room for the next
    /// ones.
    void serve();

    /// Accepts again after the host refused; serve() alone would not, or it would be called again
    /// and again for a client that cannot be had.
    void resume() { refused_ = false; }

private:
    struct Client {
        FileDescriptor fd;
        std::string request;
    };

    void accept_some();

    /// Whether this client is done with.
    bool advance(Client& client) const;

    FileDescriptor listener_;
    Page page_;
    std::deque<Client> clients_;
    bool refused_ = false; ///< for want of descriptors or memory
};

/// The whole response to a request's head: the page for GET /metrics, otherwise an error.
std::string respond(const std::string& request, const MetricsServer::Page& page);

} // namespace reprise::proxy
