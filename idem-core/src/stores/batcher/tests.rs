use super::*;

const LIMITS: Limits = Limits {
    calls: 3,
    bytes: 10,
};

#[derive(Debug, PartialEq)]
struct NumberedCall {
    number: usize,
    bytes: usize,
    may_be_dropped: bool,
}

impl Call for NumberedCall {
    type Answer = usize;

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn may_be_dropped(&self) -> bool {
        self.may_be_dropped
    }
}

fn call(number: usize, bytes: usize) -> NumberedCall {
    NumberedCall {
        number,
        bytes,
        may_be_dropped: false,
    }
}

fn numbers(batch: &[Waiting<NumberedCall>]) -> Vec<usize> {
    batch.iter().map(|waiting| waiting.call.number).collect()
}

/// A queue of calls with so many bytes, numbered from 0, and those who wait for the answers.
fn queue_of(bytes: &[usize]) -> (Queue<Waiting<NumberedCall>>, Vec<oneshot::Receiver<usize>>) {
    let (batcher, queue) = Batcher::new(LIMITS);
    let mut callers = Vec::new();
    for (number, bytes) in bytes.iter().enumerate() {
        let (waiting, caller) = Waiting::new(call(number, *bytes));
        batcher.send(waiting).unwrap();
        callers.push(caller);
    }
    (queue, callers)
}

#[tokio::test]
async fn calls_go_together_in_their_order_as_many_as_a_batch_takes() {
    let (mut queue, _callers) = queue_of(&[1; 7]);
    for expected in [vec![0, 1, 2], vec![3, 4, 5], vec![6]] {
        assert_eq!(numbers(&queue.next().await.unwrap()), expected);
    }
    assert!(queue.next().await.is_none());
}

#[tokio::test]
async fn a_batch_ends_before_the_call_whose_bytes_are_too_many() {
    let (mut queue, _callers) = queue_of(&[6, 4, 1, 10, 1]);
    for expected in [vec![0, 1], vec![2], vec![3], vec![4]] {
        assert_eq!(numbers(&queue.next().await.unwrap()), expected);
    }
}

#[tokio::test]
async fn a_call_that_is_larger_than_a_batch_goes_alone() {
    let (mut queue, _callers) = queue_of(&[11, usize::MAX, 1]);
    for expected in [vec![0], vec![1], vec![2]] {
        assert_eq!(numbers(&queue.next().await.unwrap()), expected);
    }
}

#[tokio::test]
async fn what_has_to_be_asked_again_goes_first_and_with_what_waits() {
    let (mut queue, _callers) = queue_of(&[1; 5]);
    let mut again = queue.next().await.unwrap();
    drop(again.remove(1));
    queue.put_back(again);
    assert_eq!(numbers(&queue.next().await.unwrap()), [0, 2, 3]);
}

#[tokio::test]
async fn only_what_may_be_dropped_is_left_out_when_its_caller_has_gone() {
    let (batcher, mut queue) = Batcher::new(LIMITS);
    for (number, may_be_dropped) in [(0, true), (1, false)] {
        let call = NumberedCall {
            number,
            bytes: 1,
            may_be_dropped,
        };
        let (waiting, caller) = Waiting::new(call);
        batcher.send(waiting).unwrap();
        drop(caller);
    }
    assert_eq!(numbers(&queue.next().await.unwrap()), [1]);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_no_call() {
    let (batcher, mut queue) = Batcher::new(LIMITS);
    assert!(
        tokio::time::timeout(std::time::Duration::ZERO, queue.is_filled())
            .await
            .is_err()
    );
    let (waiting, _caller) = Waiting::new(call(0, 1));
    batcher.send(waiting).unwrap();
    assert!(queue.is_filled().await);
    assert!(queue.is_filled().await);
    assert_eq!(numbers(&queue.batch()), [0]);
}

#[tokio::test]
async fn each_caller_hears_the_answer_to_its_own_call() {
    let (batcher, mut queue) = Batcher::<Waiting<NumberedCall>>::new(LIMITS);
    let task = tokio::spawn(async move {
        while let Some(batch) = queue.next().await {
            for waiting in batch.into_iter().rev() {
                let answer = waiting.call.number * 10;
                waiting.answer(answer);
            }
        }
    });
    let calls = (0..40).map(|number| {
        let batcher = batcher.clone();
        tokio::spawn(async move { (number, batcher.call(call(number, 1)).await.unwrap()) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (number, answer) = call.await.unwrap();
        assert_eq!(answer, number * 10);
    }
    drop(batcher);
    task.await.unwrap();
}

#[tokio::test]
async fn callers_hear_that_the_task_has_ended() {
    let (batcher, mut queue) = Batcher::new(LIMITS);
    let calling = tokio::spawn({
        let batcher = batcher.clone();
        async move { batcher.call(call(0, 1)).await }
    });
    drop(queue.next().await);
    calling.await.unwrap().unwrap_err();
    drop(queue);
    let error: StoreError = batcher.call(call(1, 1)).await.unwrap_err().into();
    assert!(format!("{error:?}").contains("task has ended"), "{error:?}");
}

#[tokio::test]
async fn all_that_waits_can_be_taken_at_once() {
    let (mut queue, _callers) = queue_of(&[1; 5]);
    drop(queue.next().await);
    let drained: Vec<_> = queue.drain().collect();
    assert_eq!(numbers(&drained), [3, 4]);
}

#[tokio::test]
async fn a_call_is_asked_again_so_often_and_then_given_up() {
    let (mut waiting, _caller) = Waiting::new(call(0, 1));
    assert!(!waiting.is_repeated());
    for _ in 1..ASKED_AT_MOST {
        waiting = waiting.ask_again().unwrap();
        assert!(waiting.is_repeated());
    }
    waiting.ask_again().unwrap_err();
}
