//! The stream traits of `futures`, implemented for descriptors.

/// Implements `AsyncRead` for a type whose reference implements it.
macro_rules! read_by_value {
    ($type:ty) => {
        impl futures_io::AsyncRead for $type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffer: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_read(cx, buffer)
            }

            fn poll_read_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffers: &mut [std::io::IoSliceMut<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_read_vectored(cx, buffers)
            }
        }
    };
}

/// Implements `AsyncWrite` for a type whose reference implements it.
macro_rules! write_by_value {
    ($type:ty) => {
        impl futures_io::AsyncWrite for $type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffer: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_write(cx, buffer)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffers: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_write_vectored(cx, buffers)
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut &*self).poll_flush(cx)
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut &*self).poll_close(cx)
            }
        }
    };
}

/// Implements `AsyncRead` for the reference of a wrapper around an `Async<T>` where `&T` reads.
macro_rules! read_by_attempts {
    ($type:ty) => {
        impl futures_io::AsyncRead for &$type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffer: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                (self.0).poll_read_with(cx, |mut io| std::io::Read::read(&mut io, buffer))
            }

            fn poll_read_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffers: &mut [std::io::IoSliceMut<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                (self.0).poll_read_with(cx, |mut io| std::io::Read::read_vectored(&mut io, buffers))
            }
        }
        $crate::stream::read_by_value!($type);
    };
}

/// Implements `AsyncWrite` for the reference of a wrapper around an `Async<T>` where `&T` writes;
/// `$close` ends it.
macro_rules! write_by_attempts {
    ($type:ty, $close:expr) => {
        impl futures_io::AsyncWrite for &$type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffer: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                (self.0).poll_write_with(cx, |mut io| std::io::Write::write(&mut io, buffer))
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffers: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                (self.0).poll_write_with(cx, |mut io| {
                    std::io::Write::write_vectored(&mut io, buffers)
                })
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let close: fn(&$type) -> std::io::Result<()> = $close;
                std::task::Poll::Ready(close(*self))
            }
        }
        $crate::stream::write_by_value!($type);
    };
}

pub(crate) use {read_by_attempts, read_by_value, write_by_attempts, write_by_value};
