#include "controller/controller.hh"
#include "core/base/error.hh"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>

namespace reprise::controller {
namespace {

/// Of "Test", self-signed, good until 2126.
const std::string kCertificate = R"(-----BEGIN CERTIFICATE-----
MIIBdDCCARugAwIBAgIUKEkmCwClhAQv8hdmM+R196WYTbswCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEVGVzdDAgFw0yNjExMjExNTIyMzlaGA8yMTI2MTAyODE1MjIz
OVowDzENMAsGA1UEAwwEVGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJbR
E4Air5LmSpo5bfHYb+mFZI2ajq1KiC2Y4s/Dqz/GoyCP/oFtc7Y2d3DaDfYxmMyk
wG4TnhK6CVItp3Kp+lCjUzBRMB0GA1UdDgQWBBRic1FCXHxuzP6o4SXv1djsoom7
KzAfBgNVHSMEGDAWgBRic1FCXHxuzP6o4SXv1djsoom7KzAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0cAMEQCIBkT9WQfZ1FV72zx1t5mW9sCZk0t6poIYGJs
9fCkmby9AiAMUFOw/EAecdjSi5AJxU26OkeuMvkrNkRS9qZzLqG7Uw==
-----END CERTIFICATE-----
)";

class Authorities : public ::testing::Test {
protected:
    Authorities() {
        std::string pattern = ::testing::TempDir() + "/authoritiesXXXXXX";
        folder_ = mkdtemp(pattern.data());
    }

    ~Authorities() override { std::filesystem::remove_all(folder_); }

    std::string write(const std::string& text) const {
        const std::string path = folder_ + "/ca.pem";
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    std::string error(const std::string& path) const {
        try {
            read_authorities(path);
        } catch (const UsageError& error) {
            return error.what();
        }
        return {};
    }

    std::string folder_;
};

TEST_F(Authorities, AreReadWithoutCommentsAndKeys) {
    const std::string bundle = "# caf\xe9\n" + kCertificate + "\xff\n" + kCertificate;
    EXPECT_EQ(read_authorities(write(bundle)), kCertificate + kCertificate);
    EXPECT_EQ(read_authorities(""), "");
}

TEST_F(Authorities, AMissingFileIsAnErrorWithTheMend) {
    EXPECT_EQ(error(folder_ + "/none.pem"),
              "tls.ca " + folder_ +
                  "/none.pem: No such file or directory; check the path and its permissions");
    EXPECT_NE(error(folder_), "");
}

TEST_F(Authorities, WhatIsNoCertificateIsAnError) {
    std::string broken = kCertificate;
    broken[100] = '!';
    const std::string long_one(3UL << 20U, '#');
    for (const std::string& bad : {std::string(), std::string("hello"), broken,
                                   kCertificate + broken, kCertificate + long_one}) {
        EXPECT_NE(error(write(bad)).find("not certificates in PEM"), std::string::npos);
    }
}

} // namespace
} // namespace reprise::controller
